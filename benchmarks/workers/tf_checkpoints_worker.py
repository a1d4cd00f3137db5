"""Small checkpoints by bilm's own code and TensorFlow's own writers, and what TensorFlow reads in them:

python tf_checkpoints_worker.py FOLDER

For each spelling of the names: a checkpoint after two steps of training, options.json, vocab.txt, all variables as
TensorFlow reads them, and the perplexity that bilm's `test()` finds on text.txt. Then a SavedModel with the names of
TensorFlow Hub's modules, and a checkpoint of many types in slices and two data files. tests/conversion/tensorflow
holds what this wrote.
"""

import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import bilm_perplexity_worker as by_bilm
import numpy as np
import tensorflow.compat.v1 as tf
from bilm import training

WORDS = "the cat sat on a mat and dog ran far away from it all zoë 42 .".split()
VOCABULARY = ["<S>", "</S>", "<UNK>", *WORDS]
CHARACTERS = {
    "activation": "relu",
    "embedding": {"dim": 4},
    "filters": [[1, 3], [2, 4]],
    "max_characters_per_token": 12,
    "n_characters": 261,
    "n_highway": 1,
}
LSTM = {"cell_clip": 3, "dim": 8, "n_layers": 2, "proj_clip": 3, "projection_dim": 5, "use_skip_connections": True}
COMMON = {
    "all_clip_norm_val": 10.0,
    "batch_size": 2,
    "bidirectional": True,
    "char_cnn": CHARACTERS,
    "dropout": 0.1,
    "lstm": LSTM,
    "n_negative_samples_batch": 8,
    "n_tokens_vocab": len(VOCABULARY),
    "unroll_steps": 4,
}
WORD_INPUT = {name: value for name, value in COMMON.items() if name != "char_cnn"}
CASES = {
    "two-layers": COMMON,
    "one-layer": {**COMMON, "lstm": {**LSTM, "n_layers": 1}},
    "one-direction": {**COMMON, "bidirectional": False},
    "one-layer-one-direction": {**COMMON, "bidirectional": False, "lstm": {**LSTM, "n_layers": 1}},
    "no-projection": {**COMMON, "lstm": {**LSTM, "dim": 5, "use_skip_connections": False}},
    "word-input": WORD_INPUT,
    "shared-softmax": {**WORD_INPUT, "share_embedding_softmax": True},
}


def train(options: dict, folder: Path):
    """Two steps with Adagrad on random text, saved with the optimizer's slots, as bilm's `train()` does it."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        step = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
        optimizer = tf.train.AdagradOptimizer(0.2, initial_accumulator_value=1.0)
        with tf.variable_scope("lm"):
            model = training.LanguageModel(options, True)
        update = optimizer.minimize(model.total_loss, global_step=step)
        session.run(tf.global_variables_initializer())
        random = np.random.RandomState(0)
        for variable in tf.trainable_variables():  # nothing stays at zero
            shape = variable.shape.as_list()
            variable.load(random.normal(0, 2 / max(shape[0], 1) ** 0.5, shape).astype("f"), session)
        for _ in range(2):
            session.run(update, inputs(model, options, random))
        tf.train.Saver().save(session, str(folder / "model.ckpt"), global_step=2, write_meta_graph=False)
    # As after a move: the path is that of the machine that trained.
    path = '"/data/run 1/model.ckpt-2"'
    (folder / "checkpoint").write_text(f"model_checkpoint_path: {path}\nall_model_checkpoint_paths: {path}\n")


def inputs(model, options: dict, random) -> dict:
    size, steps = options["batch_size"], options["unroll_steps"]
    both = options.get("bidirectional", False)
    feed = {model.next_token_id: random.randint(0, len(VOCABULARY), (size, steps))}
    if both:
        feed[model.next_token_id_reverse] = random.randint(0, len(VOCABULARY), (size, steps))
    if "char_cnn" in options:
        shape = (size, steps, options["char_cnn"]["max_characters_per_token"])
        feed[model.tokens_characters] = random.randint(0, 261, shape)
        if both:
            feed[model.tokens_characters_reverse] = random.randint(0, 261, shape)
    else:
        feed[model.token_ids] = random.randint(0, len(VOCABULARY), (size, steps))
        if both:
            feed[model.token_ids_reverse] = random.randint(0, len(VOCABULARY), (size, steps))
    return feed


def read(prefix: Path) -> dict:
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def perplexity(options: dict, folder: Path, text: Path) -> float:
    characters = options.get("char_cnn", {}).get("max_characters_per_token")
    vocabulary = training.load_vocab(str(folder / "vocab.txt"), characters)
    dataset = by_bilm.Dataset(str(text), vocabulary, test=True, shuffle_on_load=False)
    with redirect_stdout(sys.stderr), tf.Graph().as_default():
        plain = {**options, "dropout": 0.0}
        return float(training.test(plain, str(folder / "model.ckpt-2"), dataset, batch_size=2))


def hub_module(folder: Path, source: Path):
    """A SavedModel whose variables have the names and shapes of elmo/2's."""
    weights, names = read(source / "model.ckpt-2"), {}
    for name, value in weights.items():
        if name.startswith("lm/") and not name.endswith("/Adagrad") and "softmax" not in name:
            name = name.replace("lm/", "bilm/").replace("/rnn/multi_rnn_cell/cell_", "/RNN/MultiRNNCell/Cell")
            names[name.replace("/lstm_cell/", "/rnn/lstm_cell/")] = value
    names["aggregation/weights"] = np.array([0.5, -0.25, 1.0], "f")
    names["aggregation/scaling"] = np.array(1.5, "f")
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(name, initializer=value) for name, value in names.items()]
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, [])
        builder.save()
        (folder / "saved_model.pb").write_bytes(b"")  # the graph, which nobody reads here, is large
        np.savez_compressed(folder / "expected.npz", **dict(zip(names, session.run(variables), strict=True)))


def many_types(folder: Path):
    """Every type of number, scalars and empty tensors, partitioned variables in slices, and two data files."""
    folder.mkdir()
    random = np.random.RandomState(0)
    kinds = "float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128"
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        with tf.device("/cpu:0"):
            for kind in kinds.split():
                tf.get_variable(
                    kind, initializer=(random.normal(0, 20, (3, 2)) > 0).astype(kind) * np.dtype(kind).type(1)
                )
            tf.get_variable("bfloat16", initializer=tf.cast(random.normal(0, 20, (3, 2)), tf.bfloat16))
            tf.get_variable("scalar", initializer=np.float32(3.25))
            tf.get_variable("empty", initializer=np.zeros((0, 4), "f"))
        with tf.device("/cpu:1"):
            for axis in (0, 1):
                partitioner = tf.fixed_size_partitioner(5, axis=axis)
                with tf.variable_scope(f"axis{axis}", partitioner=partitioner):
                    tf.get_variable("sliced", shape=(300, 17), initializer=tf.random_normal_initializer(seed=axis))
        session.run(tf.global_variables_initializer())
        tf.train.Saver(sharded=True).save(session, str(folder / "many"), write_meta_graph=False)
    values = read(folder / "many")
    np.savez_compressed(
        folder / "expected.npz",
        **{name: value.astype("f") if name == "bfloat16" else value for name, value in values.items()},
    )


def main(folder: Path):
    random = np.random.RandomState(3)
    folder.mkdir(parents=True)
    text = folder / "text.txt"
    lines = [" ".join(random.choice([*WORDS, "unknown"], random.randint(1, 9))) for _ in range(60)]
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = {}
    for name, options in CASES.items():
        case = folder / name
        case.mkdir()
        (case / "options.json").write_text(json.dumps(options))
        (case / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY), encoding="utf-8")
        train(options, case)
        np.savez_compressed(case / "expected.npz", **read(case / "model.ckpt-2"))
        found[name] = perplexity(options, case, text)
    (folder / "perplexity.json").write_text(json.dumps(found, indent=1) + "\n")
    hub_module(folder / "hub", folder / "two-layers")
    many_types(folder / "many-types")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
