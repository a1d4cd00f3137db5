"""simple-elmo, with a session of its own kept open, as its documentation advises for repeated calls."""

import logging
import os
from importlib.metadata import version

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import simple_elmo
import tensorflow as tf
from serve import Program, serve


def load(settings: dict) -> Program:
    threads = settings["threads"]
    model = simple_elmo.ElmoModel()
    logging.disable(logging.INFO)
    model.load(settings["checkpoint"], max_batch_size=128)
    session = tf.compat.v1.Session(
        config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    )
    model.elmo_sentence_input = simple_elmo.weight_layers("input", model.sentence_embeddings_op, use_layers="all")
    session.run(tf.compat.v1.global_variables_initializer())

    def embed(batch):
        model.batch_size = len(batch)
        return model.get_elmo_vectors(batch, warmup=False, layers="all", session=session)

    return Program(
        version=f"simple-elmo {version('simple-elmo')}, TensorFlow {version('tensorflow')}",
        embed=embed,
        to_arrays=lambda result, batch: [row[:, : len(words)] for row, words in zip(result, batch, strict=True)],
    )


serve(load)
