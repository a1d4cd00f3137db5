"""Outside files for `convert`: broken options, weights and archives are refused in a sentence, and nothing is left."""

import io
import json
import random
import shutil
import zipfile
from pathlib import Path

from golden_files import GOLDEN

from elmo_hf import conversion
from fuzz.damage import damaged, damaged_json

CHECKPOINTS = [GOLDEN[name] for name in ("plain", "word-input", "no-highway", "one-layer")]


def trial(rng: random.Random, folder: Path) -> str:
    checkpoint = rng.choice(CHECKPOINTS)
    options, weights = checkpoint.options.read_bytes(), checkpoint.weights.read_bytes()
    if rng.random() < 0.5:
        options = damaged_json(rng, json.loads(options))
    else:
        weights = damaged(rng, weights)
    given = folder / "given"
    given.mkdir()
    (given / "options.json").write_bytes(options)
    (given / "weights.hdf5").write_bytes(weights)
    shutil.copy(checkpoint.vocabulary, given / "vocab.txt")
    sources = [given / "options.json", given / "weights.hdf5"]
    if rng.random() < 0.4:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
            for file in given.iterdir():
                archive.write(file, file.name)
        content = packed.getvalue()
        sources = [given / "all.zip"]
        sources[0].write_bytes(damaged(rng, content) if rng.random() < 0.7 else content)
    try:
        conversion.convert(*sources, output_dir=folder / "model", vocabulary=given / "vocab.txt")
    except (ValueError, OSError) as error:
        assert not (folder / "model").exists() and not list(folder.glob(".model*")), "something was left behind"
        return str(error)
    assert (folder / "model" / "model.safetensors").exists()
    return "accepted"
