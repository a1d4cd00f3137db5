"""Round trips of original files of every variant, and errors."""

import functools
import json
import os
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import h5py
import numpy as np
import pytest
import torch
from fork_server import run_forked
from golden_files import GOLDEN, RANDOM, load_arrays

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForSequenceClassification, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert, export, options_from_config, weight_map
from elmo_hf.conversion.formats.bilm_hdf5 import lstm_stacks
from elmo_hf.hub.model_card import model_card

PLAIN = GOLDEN["plain"]


def write_files(folder, options, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(
        options if isinstance(options, str) else json.dumps(options), encoding="utf-8"
    )
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return folder


def convert_folder(folder, tmp_path, **kwargs):
    return convert(folder, output_dir=tmp_path / "model", **kwargs)


def random_arrays(config, stacks=None):
    random = np.random.default_rng(0)
    return {entry.dataset: random.normal(size=entry.shape).astype("f") for entry in weight_map(config, stacks)}


# There and back


@pytest.mark.parametrize("name", RANDOM)
def test_there_and_back_gives_identical_arrays(name, tmp_path, converted):
    golden = GOLDEN[name]
    export(converted(golden), tmp_path / "back")
    arrays = load_arrays(tmp_path / "back" / "weights.hdf5")
    assert arrays.keys() == golden.arrays.keys()
    for dataset, array in arrays.items():
        assert array.dtype == golden.arrays[dataset].dtype == np.float32
        np.testing.assert_array_equal(array, golden.arrays[dataset])
    options = json.loads((tmp_path / "back" / "options.json").read_text())
    assert {**options["lstm"]} == golden.options_content["lstm"]
    if not golden.word_input:
        assert options["char_cnn"] == golden.options_content["char_cnn"]
    else:
        assert (tmp_path / "back" / "vocab.txt").read_text() == golden.vocabulary.read_text()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell_size", [4, 6])
def test_every_way_of_naming_the_layers(bidirectional, layers, cell_size, tmp_path):
    config = ElmoConfig(
        character_cnn_filters=[[1, 2], [3, 2]],
        projection_size=4,
        cell_size=cell_size,
        num_hidden_layers=layers,
        bidirectional=bidirectional,
        max_characters_per_token=20,
    )
    for number, stacks in enumerate(lstm_stacks(bidirectional, layers)):
        options = options_from_config(config)
        if number == 0:
            del options["bidirectional"]  # many files do not say
        arrays = random_arrays(config, stacks)
        model = convert(write_files(tmp_path / f"in{number}", options, arrays), output_dir=tmp_path / f"out{number}")
        assert model.config.bidirectional == bidirectional and model.config.max_characters_per_token == 20
        export(tmp_path / f"out{number}", tmp_path / f"back{number}")
        back = load_arrays(tmp_path / f"back{number}" / "weights.hdf5")
        for old, new in zip(weight_map(config, stacks), weight_map(config), strict=True):
            np.testing.assert_array_equal(back[new.dataset], arrays[old.dataset])


def test_number_of_characters_may_be_either(tmp_path):
    for number in (261, 262):
        options = json.loads(json.dumps(PLAIN.options_content))
        options["char_cnn"]["n_characters"] = number
        folder = write_files(tmp_path / f"in{number}", options, PLAIN.arrays)
        assert convert(folder, output_dir=tmp_path / f"out{number}").config.character_vocab_size == 262


def test_softmax_and_vocabulary_there_and_back(tmp_path):
    words = PLAIN.vocabulary.read_text(encoding="utf-8").splitlines()
    softmax = {"softmax/W": np.random.default_rng(0).normal(size=(len(words), 6)).astype("f")}
    softmax["softmax/b"] = np.arange(len(words), dtype="f")
    write_files(tmp_path / "softmax", {}, softmax)
    model = convert(
        PLAIN.options,
        PLAIN.weights,
        output_dir=tmp_path / "model",
        vocabulary=PLAIN.vocabulary,
        softmax=tmp_path / "softmax" / "weights.hdf5",
    )
    assert isinstance(model, ElmoForPreTraining) and model.config.vocab_size == len(words)
    tokenizer = ElmoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer.word_vocabulary == words and tokenizer.word_truncation == "bytes"
    body, info = ElmoModel.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert torch.equal(body.bilm.forward_layers[0].bias, model.elmo.bilm.forward_layers[0].bias)
    assert not info["missing_keys"]
    export(tmp_path / "model", tmp_path / "back")
    for dataset, array in load_arrays(tmp_path / "back" / "softmax.hdf5").items():
        np.testing.assert_array_equal(array, softmax[dataset])
    assert (tmp_path / "back" / "vocab.txt").read_text(encoding="utf-8").splitlines() == words

    inside = write_files(tmp_path / "inside", PLAIN.options_content, PLAIN.arrays | softmax)
    same = convert(inside, output_dir=tmp_path / "second")
    assert torch.equal(same.softmax.weight, model.softmax.weight)


def test_export_warns_of_a_mix_that_the_files_cannot_hold(tmp_path, converted, caplog):
    model = ElmoModel.from_pretrained(converted(PLAIN))
    with torch.no_grad():
        model.scalar_mix.weight[0] = 1
    model.save_pretrained(tmp_path / "learned")
    export(tmp_path / "learned", tmp_path / "back")
    assert "has a learned mix of layers, which the original files cannot hold" in caplog.text


def test_a_model_of_residues(tmp_path, command, monkeypatch, capsys):
    """From files like SeqVec's: the card's example runs, and every verb reads a line as a sequence."""
    words = ["<S>", "</S>", "<UNK>", "S", "E", "X"]
    softmax = {"softmax/W": np.random.default_rng(0).normal(size=(6, 6)).astype("f"), "softmax/b": np.ones(6, "f")}
    folder = write_files(tmp_path / "files", PLAIN.options_content, PLAIN.arrays | softmax)
    for name, lines in (("vocab.txt", words), ("raw", ["SEu", "es"]), ("split", ["S E X", "E S"])):
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("convert", folder, "model", "--splitting", "residues")
    assert code == 0 and "raw text will be split by: residues" in out
    example = (tmp_path / "model" / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    exec(example, {})
    assert "SEQWENCE" in example and capsys.readouterr().out == "torch.Size([2, 10, 12])\n"
    assert "SEQWENCE" in model_card(ElmoForSequenceClassification.from_pretrained("model"), "task")
    for verb, fields in (("score", 9), ("perplexity", 2)):  # perplexity also tells of bytes, which are not the same
        raw, split = (
            command(verb, "model", folder / name, *options)
            for name, options in (("raw", ()), ("split", ("--splitting", "whitespace")))
        )
        raw_rows, split_rows = ([line.split()[:fields] for line in one[1].splitlines()] for one in (raw, split))
        assert raw[0] == 0 and raw_rows[:3] == split_rows[:3] and len(raw_rows) >= 3
    for name, options in (("raw", ()), ("split", ("--tokenized",))):
        assert command("embed", "model", folder / name, f"{name}.hdf5", "--layers", "all", *options)[0] == 0
    raw, split = (load_arrays(tmp_path / f"{name}.hdf5") for name in ("raw", "split"))
    assert raw["0"].shape[1] == 3 and all(np.array_equal(raw[key], split[key]) for key in ("0", "1"))


def test_what_a_conversion_writes(tmp_path):
    convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "model", language="en", license="apache-2.0")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    for part in ("license: apache-2.0", "language: en", "4,342", "`weights.hdf5`", "Peters", str(tmp_path / "model")):
        assert part in card
    assert not [name for name in os.listdir(tmp_path / "model") if name.endswith((".bin", ".pt", ".pkl"))]
    assert os.listdir(tmp_path) == ["model"]


def test_memory_and_warnings_of_half_and_double_precision(tmp_path, caplog):
    arrays = {name: array.astype("f8") for name, array in PLAIN.arrays.items()}
    model = convert_folder(write_files(tmp_path / "in", PLAIN.options_content, arrays), tmp_path)
    assert model.dtype == torch.float32 and "has the type float64 and is stored as float32" in caplog.text


# What is refused, or warned of


def changed_options(**changes):
    """A function that changes the options at dotted paths; None takes the key away."""

    def change(folder):
        options = json.loads(json.dumps(PLAIN.options_content))
        for path, value in changes.items():
            place, (*groups, name) = options, path.split("__")
            for group in groups:
                place = place[group]
            if value is None:
                del place[name]
            else:
                place[name] = value
        (folder / "options.json").write_text(json.dumps(options))

    return change


def options_text(text):
    return lambda folder: (folder / "options.json").write_text(text)


def changed_arrays(change):
    def rewrite(folder):
        arrays = dict(PLAIN.arrays)
        change(arrays)
        write_files(folder, PLAIN.options_content, arrays)

    return rewrite


def renamed(arrays):
    arrays["CNN/kernel_0"] = arrays.pop("CNN/W_cnn_0")


def replaced(name, value):
    def change(arrays):
        arrays[name] = value(arrays[name])

    return changed_arrays(change)


def truncated(part):
    def cut(folder):
        content = (folder / "weights.hdf5").read_bytes()
        (folder / "weights.hdf5").write_bytes(content[: int(len(content) * part)])

    return cut


def not_hdf5(folder):
    (folder / "weights.hdf5").write_bytes(b"<html>404 Not Found</html>")


def external_link(folder):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = h5py.ExternalLink("/etc/passwd", "/x")


def soft_link(folder):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file["alias"] = h5py.SoftLink("/char_embed")


def external_storage(folder):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", (261, 4), "f4", external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])


KERNEL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
MALFORMED = {
    "truncated HDF5": (truncated(0.5), "weights.hdf5 is a damaged or truncated HDF5 file of 21,564 bytes"),
    "empty file": (truncated(0), r"weights.hdf5 is empty \(0 bytes\). Expected an HDF5 file"),
    "not an HDF5": (not_hdf5, "weights.hdf5 is not an HDF5 file .it begins with b'<html>40'"),
    "HDF5 without datasets": (
        lambda folder: write_files(folder, PLAIN.options_content, {}),
        "weights.hdf5 is an HDF5 file without any dataset",
    ),
    "renamed dataset": (
        changed_arrays(renamed),
        r"CNN/W_cnn_0 is missing; expected the shape \(1, 1, 4, 3\)\n.*CNN/kernel_0 with the shape .* has no",
    ),
    "wrongly shaped": (
        replaced("char_embed", lambda x: x[:-1]),
        r"char_embed has the shape \(260, 4\); expected \(261, 4\)",
    ),
    "wrongly typed": (
        replaced("char_embed", lambda x: x.astype("i4")),
        "char_embed has the type int32; expected floating-point numbers",
    ),
    "strings for numbers": (
        replaced("char_embed", lambda x: "text"),
        "char_embed has the type object; expected floating-point numbers",
    ),
    "transposed": (
        replaced("CNN_proj/W_proj", lambda x: x.T),
        r"CNN_proj/W_proj has the shape \(6, 12\); expected \(12, 6\) \(it looks transposed\)",
    ),
    "external link": (external_link, "char_embed is an external link. Expected the values"),
    "soft link": (soft_link, "alias is a soft link. Expected the values"),
    "values in another file": (external_storage, "char_embed has its values in another file, which is not read"),
    "options missing": (
        lambda folder: (folder / "options.json").unlink(),
        "does not hold the options file, but weights.hdf5",
    ),
    "options not JSON": (options_text("{'lstm': 1}"), "options.json is not JSON"),
    "options not an object": (options_text("[1]"), "options.json holds a list. Expected an object"),
    "options nested without end": (options_text("[" * 100_000), "options.json is not JSON"),
    "missing key": (changed_options(lstm__dim=None), "`lstm.dim` is missing. Expected a whole number from 1"),
    "neither characters nor words": (
        changed_options(char_cnn=None),
        "has neither `char_cnn` nor `n_tokens_vocab`",
    ),
    "words without a vocabulary": (
        changed_options(char_cnn=None, n_tokens_vocab=65),
        "describes a model that reads the words of a vocabulary. Expected the vocabulary too",
    ),
    "text for a number": (changed_options(lstm__dim="12"), 'Invalid `lstm.dim`: "12". Expected a whole number'),
    "huge number": (
        changed_options(lstm__dim=10**30),
        "Invalid `lstm.dim`: 10{30}. Expected a whole number from 1 to 10,000",
    ),
    "huge number of layers": (changed_options(lstm__n_layers=10**9), "Invalid `lstm.n_layers`: 10{9}. Expected"),
    "infinite clip": (
        changed_options(lstm__cell_clip=float("inf")),
        "Invalid `lstm.cell_clip`: Infinity. Expected a number",
    ),
    "broken filters": (
        changed_options(char_cnn__filters=[[1, 3], [2]]),
        r"Invalid `char_cnn.filters`: \[\[1, 3\], \[2\]\]. Expected a list of 1 to 1,000 pairs",
    ),
    "unknown activation": (
        changed_options(char_cnn__activation="gelu"),
        'Invalid `char_cnn.activation`: "gelu". Expected "relu"',
    ),
    "filters wider than words": (
        changed_options(char_cnn__max_characters_per_token=2),
        "Invalid `max_characters_per_token`: 2. Expected at least 3",
    ),
    "cells below the projection": (
        changed_options(lstm__dim=5),
        r"Invalid `cell_size`: 5. Expected at least `projection_size` \(6\)",
    ),
    "said one direction, has two": (
        changed_options(bidirectional=False),
        "`bidirectional` is false, but the weights have both directions",
    ),
    "options of another size": (
        changed_options(lstm__dim=16),
        rf"{KERNEL} has the shape \(12, 48\); expected \(12, 64\)",
    ),
    "options of fewer layers": (
        changed_options(lstm__n_layers=1),
        r"Cell1/LSTMCell/B with the shape \(48,\) has no place in this model",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_explained_in_a_sentence(name, tmp_path):
    damage, sentence = MALFORMED[name]
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copyfile(PLAIN.options, folder / "options.json")
    shutil.copyfile(PLAIN.weights, folder / "weights.hdf5")
    damage(folder)
    with pytest.raises(ValueError, match=f"(?s){sentence}") as error:
        convert_folder(folder, tmp_path)
    print(f"| {name} | {str(error.value).replace(str(tmp_path), '')} |")
    assert os.listdir(tmp_path) == ["in"]  # nothing is left behind


def test_damage_inside_of_a_dataset(tmp_path):
    folder = write_files(tmp_path / "in", PLAIN.options_content, {})
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in PLAIN.arrays.items():
            file.create_dataset(name, data=array, compression="gzip", fletcher32=True)
        place = file["char_embed"].id.get_chunk_info(0).byte_offset
    content = bytearray((folder / "weights.hdf5").read_bytes())
    content[place + 100] ^= 0xFF
    (folder / "weights.hdf5").write_bytes(content)
    with pytest.raises(ValueError, match="char_embed cannot be read; the file is damaged"):
        convert_folder(folder, tmp_path)


def test_extra_options_are_named(tmp_path, caplog):
    folder = write_files(tmp_path / "in", PLAIN.options_content, PLAIN.arrays)
    changed_options(lstm__use_skip_conections=True, n_epochs=3)(folder)
    convert_folder(folder, tmp_path)
    assert "unknown options, which are not used: `lstm.use_skip_conections`." in caplog.text


def test_values_that_are_no_numbers_are_named(tmp_path, caplog):
    arrays = {**PLAIN.arrays, KERNEL: PLAIN.arrays[KERNEL] * np.float32("nan")}
    folder = write_files(tmp_path / "in", PLAIN.options_content, arrays)
    with pytest.raises(ValueError, match=f"{KERNEL} holds 576 values that are NaN or infinite"):
        convert_folder(folder, tmp_path)
    assert os.listdir(tmp_path) == ["in"]
    convert_folder(folder, tmp_path, allow_non_finite=True)
    assert f"{KERNEL} holds 576 values that are NaN or infinite" in caplog.text


def test_vocabularies_that_do_not_fit(tmp_path):
    word = GOLDEN["word-input"]
    lines = word.vocabulary.read_text(encoding="utf-8").splitlines()
    (tmp_path / "short.txt").write_text("\n".join(lines[:-1]), encoding="utf-8")
    (tmp_path / "bare.txt").write_text("\n".join(lines[2:]), encoding="utf-8")
    with pytest.raises(ValueError, match="The vocabulary has 64 words, but `n_tokens_vocab` is 65"):
        convert(word.options, word.weights, output_dir=tmp_path / "a", vocabulary=tmp_path / "short.txt")
    # bilm-tf takes the last word for </S> here, and says nothing.
    with pytest.raises(ValueError, match="has 63 words, but not <S> and not </S>. Expected both"):
        convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "b", vocabulary=tmp_path / "bare.txt")


def test_softmax_that_does_not_fit(tmp_path):
    write_files(tmp_path / "empty", {}, {"other": np.ones(3, "f")})
    write_files(tmp_path / "wrong", {}, {"softmax/W": np.ones((64, 6), "f"), "softmax/b": np.ones(64, "f")})
    for name, sentence in (
        ("empty", "has no dataset softmax/W; found other"),
        ("wrong", "softmax/W has 64 rows, but"),
    ):
        with pytest.raises(ValueError, match=sentence):
            convert(
                PLAIN.options,
                PLAIN.weights,
                output_dir=tmp_path / "model",
                vocabulary=PLAIN.vocabulary,
                softmax=tmp_path / name / "weights.hdf5",
            )


def test_output_folder_that_exists_is_kept(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("precious")
    with pytest.raises(ValueError, match="model exists already. Expected a new or an empty folder"):
        convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "model")
    assert (tmp_path / "model" / "mine.txt").read_text() == "precious"
    (tmp_path / "empty").mkdir()
    convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "empty")


def test_output_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="model cannot be written: (Not a directory|File exists)"):
        convert(PLAIN.options, PLAIN.weights, output_dir=tmp_path / "file" / "model")


def test_full_disk_leaves_nothing_behind(tmp_path):
    """A limit on the size of files stands for the disk: writing the weights fails half-way."""
    code = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from elmo_hf.conversion import convert
resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))
try:
    convert({str(PLAIN.options)!r}, {str(PLAIN.weights)!r}, output_dir={str(tmp_path / "model")!r})
except ValueError as error:
    print(error)
"""
    done = run_forked(["-c", code])
    assert done.returncode == 0, done.stderr
    assert "could not be written, and nothing of it is left behind" in done.stdout
    assert os.listdir(tmp_path) == []


def test_addresses(tmp_path, monkeypatch):
    """The original files from a web server, as people have them in their notes."""
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path / "cache"))
    handler = functools.partial(QuietHandler, directory=PLAIN.options.parent)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        files = [f"{address}/options.json", f"{address}/weights.hdf5"]
        model = convert(*files, output_dir=tmp_path / "model", vocabulary=f"{address}/vocab.txt")
        with pytest.raises(ValueError, match="no-such.json.*404"):
            convert(f"{address}/no-such.json", files[1], output_dir=tmp_path / "other")
        server.shutdown()
    assert model.config.vocab_size == 65 and "`weights.hdf5`" in (tmp_path / "model" / "README.md").read_text()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass
