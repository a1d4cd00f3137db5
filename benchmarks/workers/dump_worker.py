"""Embeds a text file as users of bilm and of simple-elmo do: all layers, a dataset for each sentence.

dump_worker.py {bilm,simple_elmo} CHECKPOINT TEXT OUTPUT
"""

import os
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
threads = int(os.environ["ELMO_THREADS"])
program, checkpoint, text, output = sys.argv[1:]

import tensorflow.compat.v1 as tf  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)

if program == "bilm":
    # bilm was written for TensorFlow 1 and says `import tensorflow`.
    sys.modules["tensorflow"] = tf
    tf.disable_v2_behavior()
    import bilm

    bilm.dump_bilm_embeddings(
        f"{checkpoint}/vocab.txt", text, f"{checkpoint}/options.json", f"{checkpoint}/weights.hdf5", output
    )
else:
    import h5py
    import simple_elmo

    model = simple_elmo.ElmoModel()
    # As its documentation advises for files: large batches, one session.
    model.load(checkpoint, max_batch_size=64)
    sentences = [line.split() for line in open(text, encoding="utf-8")]
    with h5py.File(output, "w") as file:
        for start in range(0, len(sentences), 640):
            some = sentences[start : start + 640]
            vectors = model.get_elmo_vectors(some, warmup=False, layers="all")
            for number, (words, found) in enumerate(zip(some, vectors, strict=True), start):
                file[str(number)] = found[:, : len(words)]
