"""Do other programs make of an exported model the vectors that it has here?

    python benchmarks/exported.py MODEL

MODEL, a folder or a repository, is exported as the original files, which bilm, simple-elmo and AllenNLP load in the
environments of benchmarks/run.py, and as ONNX, which onnxruntime runs. Each sentence begins from a state of zeros. A
difference above 2e-6 on any layer ends with exit code 1.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from agreement import ODD_SENTENCES
from processes import Worker
from programs import ALLEN, BILM, SIMPLE_ELMO
from setup_peers import set_up

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.conversion import export

TOLERANCE = 2e-6


def ours(model: str) -> list[np.ndarray]:
    """The layers (L + 1, words, hidden) of every sentence."""
    loaded, tokenizer = ElmoModel.from_pretrained(model), ElmoTokenizer.from_pretrained(model)
    layers = []
    for words in ODD_SENTENCES:
        with torch.no_grad():
            batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
            layers.append(torch.cat(loaded(**batch, output_hidden_states=True).hidden_states)[:, 1:-1].numpy())
    return layers


def by_onnxruntime(model: str, folder: Path) -> list[np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(export(model, folder / "onnx", format="onnx")[0])
    batch = ElmoTokenizer.from_pretrained(model)(
        ODD_SENTENCES, is_split_into_words=True, padding=True, return_tensors="np"
    )
    _, layers = session.run(None, {name: batch[name] for name in ("input_ids", "attention_mask")})
    return [layers[row][:, 1 : len(words) + 1] for row, words in enumerate(ODD_SENTENCES)]


def by_program(program, checkpoint: Path, folder: Path) -> list[np.ndarray]:
    set_up(program.environment)
    characters = json.loads((checkpoint / "options.json").read_text())["char_cnn"]["max_characters_per_token"]
    settings = {"checkpoint": str(checkpoint), "threads": 1, "max_characters": characters}
    worker = Worker(program, settings, folder / f"{program.name}.log")
    try:
        worker.embed([ODD_SENTENCES], save_to=folder / "vectors.npz")
    finally:
        worker.stop()
    with np.load(folder / "vectors.npz") as arrays:
        return [arrays[name] for name in arrays.files]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    model = parser.parse_args().model
    expected, worst = ours(model), 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        export(model, folder / "original")
        vocabulary = folder / "original" / "vocab.txt"
        if not vocabulary.exists():  # bilm wants one, though characters are all it reads
            vocabulary.write_text("<S>\n</S>\n<UNK>\n")
        ways = {"onnxruntime": lambda: by_onnxruntime(model, folder)}
        for program in (BILM, SIMPLE_ELMO, ALLEN):
            ways[program.name] = lambda program=program: by_program(program, folder / "original", folder)
        for name, way in ways.items():
            pairs = list(zip(way(), expected, strict=True))
            differences = [max(float(np.abs(a[k] - b[k]).max()) for a, b in pairs) for k in range(len(expected[0]))]
            print(f"{name:>12}  {'  '.join(f'{difference:.1e}' for difference in differences)}", flush=True)
            worst = max(worst, *differences)
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
