"""The perplexity that bilm's own `test()` gives, on a TensorFlow of today:

python bilm_perplexity_worker.py FOLDER_WITH_ORIGINAL_FILES TEXT STREAMS
"""

import json
import os
import re
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import h5py
import tensorflow.compat.v1 as tf

# bilm was written for TensorFlow 1 and says `import tensorflow`.
sys.modules["tensorflow"] = tf
tf.disable_v2_behavior()

from bilm import data, training  # noqa: E402


class Dataset(data.BidirectionalLMDataset):
    """Ends where the text ends: bilm raises StopIteration inside of a generator, an error in every Python of today."""

    def iter_batches(self, batch_size, num_steps):
        try:
            yield from super().iter_batches(batch_size, num_steps)
        except RuntimeError as error:
            if not isinstance(error.__cause__, StopIteration):
                raise


def read_options(folder: Path) -> dict:
    options = json.loads((folder / "options.json").read_text())
    options["dropout"] = 0.0
    options["n_tokens_vocab"] = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    if "char_cnn" in options:
        options["char_cnn"]["n_characters"] = 261  # the number in training; exported files count "no token" too
    return options


def dataset_name(variable: str) -> str:
    """The name in the HDF5 files of a variable, as lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel:0."""
    name = variable.removeprefix("lm/").removesuffix(":0")
    for pattern, replacement in (
        ("/rnn/", "/RNN/"),
        ("/multi_rnn_cell/", "/MultiRNNCell/"),
        ("/cell_", "/Cell"),
        ("/lstm_cell/", "/LSTMCell/"),
        ("LSTMCell/projection/kernel", "LSTMCell/W_P_0"),
        ("LSTMCell/kernel", "LSTMCell/W_0"),
        ("LSTMCell/bias", "LSTMCell/B"),
    ):
        name = re.sub(pattern, replacement, name)
    return name


def write_checkpoint(options: dict, folder: Path, path: str):
    """What bilm's training would have saved, had it come to these weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("lm"):
            training.LanguageModel({**options, "batch_size": 1, "unroll_steps": 1}, False)
        with h5py.File(folder / "weights.hdf5") as weights, h5py.File(folder / "softmax.hdf5") as softmax:
            for variable in tf.trainable_variables():
                name = dataset_name(variable.name)
                variable.load((softmax if name.startswith("softmax/") else weights)[name][...], session)
        tf.train.Saver().save(session, path)


def main(folder: Path, text: str, streams: int) -> float:
    options = read_options(folder)
    characters = options.get("char_cnn", {}).get("max_characters_per_token")
    vocabulary = training.load_vocab(str(folder / "vocab.txt"), characters)
    with tempfile.TemporaryDirectory() as checkpoints:
        write_checkpoint(options, folder, f"{checkpoints}/model.ckpt")
        dataset = Dataset(text, vocabulary, test=True, shuffle_on_load=False)
        return training.test(options, f"{checkpoints}/model.ckpt", dataset, batch_size=streams)


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):  # bilm reports on every batch
        found = main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    print(json.dumps({"perplexity": float(found)}))
