"""bilm's own `train()`, whole, on a TensorFlow of today."""

import os
import sys
import tempfile
from importlib.metadata import version

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow.compat.v1 as tf
from turns import Turns

# bilm was written for TensorFlow 1 and says `import tensorflow`.
sys.modules["tensorflow"] = tf
tf.disable_v2_behavior()  # with it come the variables of TensorFlow 1, as tf.disable_resource_variables() says it

from bilm import data, training  # noqa: E402


class Dataset(data.BidirectionalLMDataset):
    """bilm's windows, each of them handed out when a step is asked for."""

    def __init__(self, turns: Turns, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.turns = turns

    def iter_batches(self, batch_size, num_steps):
        windows = super().iter_batches(batch_size, num_steps)
        while True:
            self.turns.before_step()
            yield next(windows)  # the text is read over and over


def main():
    turns = Turns()
    turns.version = f"bilm {version('bilm')}, TensorFlow {version('tensorflow')}"
    settings = turns.settings
    options = settings["options"]
    vocabulary = training.load_vocab(settings["vocabulary"], options["char_cnn"]["max_characters_per_token"])
    dataset = Dataset(turns, settings["text"], vocabulary, shuffle_on_load=False)
    with tempfile.TemporaryDirectory() as folder:
        training.train(options, dataset, 1, folder, folder)


main()
