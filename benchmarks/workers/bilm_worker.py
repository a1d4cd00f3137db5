"""bilm (bilm-tf), the original program, on a TensorFlow of today."""

import os
import sys
from importlib.metadata import version

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow.compat.v1 as tf
from serve import Program, serve

# bilm was written for TensorFlow 1 and says `import tensorflow`.
sys.modules["tensorflow"] = tf
tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

import bilm  # noqa: E402


def load(settings: dict) -> Program:
    checkpoint, threads = settings["checkpoint"], settings["threads"]
    batcher = bilm.Batcher(f"{checkpoint}/vocab.txt", settings["max_characters"])
    characters = tf.placeholder("int32", shape=(None, None, settings["max_characters"]))
    model = bilm.BidirectionalLanguageModel(f"{checkpoint}/options.json", f"{checkpoint}/weights.hdf5")
    layers = model(characters)["lm_embeddings"]
    session = tf.Session(
        config=tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    )
    session.run(tf.global_variables_initializer())
    return Program(
        version=f"bilm {version('bilm')}, TensorFlow {version('tensorflow')}",
        embed=lambda batch: session.run(layers, {characters: batcher.batch_sentences(batch)}),
        to_arrays=lambda result, batch: [row[:, : len(words)] for row, words in zip(result, batch, strict=True)],
    )


serve(load)
