"""Random models in the original format, and the same converted for elmo_hf. Runs as a process of its own:

python checkpoints.py FOLDER SIZE
"""

import json
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np

from elmo_hf import ElmoConfig, conversion

# The two ends of what was released: 13.6M and 93.6M parameters.
SIZES = {
    "small": ElmoConfig(cell_size=1024, projection_size=128, num_highway_layers=1),
    "original": ElmoConfig(cell_size=4096, projection_size=512, num_highway_layers=2),
}


def write_original(config: ElmoConfig, folder: Path, seed: int = 0):
    """options.json and weights.hdf5, with weights of such a size that vectors neither fade nor are all clipped."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(conversion.options_from_config(config), indent=1))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for entry in conversion.weight_map(config):
            values = random.standard_normal(entry.shape, dtype=np.float32)
            if len(entry.shape) == 1:
                values *= 0.1
            elif entry.dataset != "char_embed":
                values /= np.sqrt(np.prod(entry.shape[:-1]))
            file[entry.dataset] = values


def main(folder: Path, size: str):
    original, converted = folder / "original-files", folder / "converted"
    if not (original / "complete").exists():
        write_original(SIZES[size], original)
        (original / "complete").touch()
    # By the elmo_hf of now, whatever it wrote before.
    shutil.rmtree(converted, ignore_errors=True)
    conversion.convert(original / "options.json", original / "weights.hdf5", output_dir=converted)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
