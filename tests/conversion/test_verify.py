"""`verify`: both layouts of dumped vectors, and what it says of others."""

import json

import h5py
import numpy as np
import pytest
from golden_files import GOLDEN

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.conversion import verify
from elmo_hf.conversion.hdf5 import open_weights
from elmo_hf.conversion.verify import _Dump

PLAIN = GOLDEN["plain"]


def dump(path, vectors, index=None):
    with h5py.File(path, "w") as file:
        for name, array in vectors.items():
            file[name] = array
        if index is not None:
            file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = json.dumps(index)
    return path


@pytest.fixture
def layers():
    return [PLAIN.expected_layers("stateless", number) for number in range(len(PLAIN.sentences))]


def check(converted, path, **kwargs):
    return verify(converted(PLAIN), path, PLAIN.sentences, batch_size=3, stateless=True, **kwargs)


def test_sentences_by_number_or_by_text(converted, layers, tmp_path):
    texts = [" ".join(words) for words in PLAIN.sentences]
    by_text = [text.replace(".", "$period$").replace("/", "$backslash$") for text in texts]
    paths = [
        dump(tmp_path / "number.hdf5", dict(zip(map(str, range(12)), layers, strict=True))),
        dump(tmp_path / "text.hdf5", dict(zip(by_text, layers, strict=True))),
        dump(
            tmp_path / "index.hdf5",
            {str(11 - k): layer for k, layer in enumerate(layers)},
            index={text: str(11 - k) for k, text in enumerate(texts)},
        ),
    ]
    for path in paths:
        outcome = check(converted, path)
        assert outcome.largest <= 2.4e-6 and list(outcome.differences) == ["layer 0", "layer 1", "layer 2"]
    assert "largest difference over 12 sentences, 73 words:" in str(outcome)


@pytest.mark.parametrize(
    "names, of",
    [
        (["top forward", "top backward"], lambda x: np.stack(np.split(x[-1], 2, -1))),
        (["top"], lambda x: x[-1]),
        (["average"], lambda x: x.mean(0)),
    ],
)
def test_other_shapes(converted, layers, tmp_path, names, of):
    path = dump(tmp_path / "dump.hdf5", {str(k): of(layer) for k, layer in enumerate(layers)})
    outcome = check(converted, path)
    assert outcome.largest <= 2.4e-6 and list(outcome.differences) == names


def test_a_difference_is_found(converted, layers, tmp_path):
    layers = [layer.copy() for layer in layers]
    layers[5][1, 3, 2] += 0.25
    outcome = check(converted, dump(tmp_path / "dump.hdf5", {str(k): layer for k, layer in enumerate(layers)}))
    assert outcome.differences["layer 1"] == pytest.approx(0.25, abs=1e-5) and outcome.differences["layer 2"] < 1e-5


def test_carried_state_is_not_stateless(converted, layers, tmp_path):
    path = dump(tmp_path / "dump.hdf5", {str(k): layer for k, layer in enumerate(layers)})
    assert verify(converted(PLAIN), path, PLAIN.sentences, batch_size=3).largest > 1e-2


def test_sentences_from_a_file_with_an_empty_line(converted, layers, tmp_path):
    (tmp_path / "sentences.txt").write_text(
        "\n".join(" ".join(words) for words in [*PLAIN.sentences[:2], []]) + "\n\n"
    )
    vectors = {"0": layers[0], "1": layers[1], "2": np.zeros((3, 0, 12), "f"), "3": np.zeros((3, 0, 12), "f")}
    path = dump(tmp_path / "dump.hdf5", vectors)
    outcome = verify(converted(PLAIN), path, tmp_path / "sentences.txt", stateless=True)
    assert outcome.largest <= 2.4e-6 and (outcome.sentences, outcome.words) == (4, 13)


def test_what_does_not_fit_is_explained(converted, layers, tmp_path):
    with pytest.raises(ValueError, match="has no vectors of sentence 1 .*; it holds 1 sentences"):
        check(converted, dump(tmp_path / "short.hdf5", {"0": layers[0]}))
    with pytest.raises(ValueError, match=r"sentence 0 \(7 words\) has the shape \(3, 6, 12\). Expected \(3, 7, 12\)"):
        check(converted, dump(tmp_path / "wrong.hdf5", {"0": layers[1]}))
    path = dump(tmp_path / "dump.hdf5", {"0": layers[0]})
    with pytest.raises(ValueError, match="There is no sentence to compare"):
        verify(converted(PLAIN), path, [])
    with pytest.raises(ValueError, match="Invalid `batch_size`: 0"):
        verify(converted(PLAIN), path, PLAIN.sentences, batch_size=0)
    with pytest.raises(ValueError, match="needs a tokenizer"):
        verify(ElmoModel.from_pretrained(converted(PLAIN)), path, PLAIN.sentences)


def test_a_model_in_memory(converted, layers, tmp_path):
    path = dump(tmp_path / "dump.hdf5", {str(k): layer for k, layer in enumerate(layers)})
    model, tokenizer = ElmoModel.from_pretrained(converted(PLAIN)), ElmoTokenizer.from_pretrained(converted(PLAIN))
    assert verify(model, path, PLAIN.sentences, 3, stateless=True, tokenizer=tokenizer).largest <= 2.4e-6


def test_damaged_dumps_are_explained_in_a_sentence(converted, layers, tmp_path):
    def changed(change):
        path = dump(tmp_path / "dump.hdf5", {"0": layers[0]})
        with h5py.File(path, "a") as file:
            change(file)
        return path

    def index(value):
        return lambda file: file.create_dataset("sentence_to_index", data=value)

    for change, message in (
        (index('{"a'), "dump.hdf5: sentence_to_index is not JSON"),
        (index("[1]"), "dump.hdf5: sentence_to_index is a list. Expected the names of the sentences"),
        (index([1, 2]), "dump.hdf5: sentence_to_index cannot be read as text"),
        (lambda file: file.create_dataset("1", data="text"), "dump.hdf5: 1 has the type object"),
    ):
        with pytest.raises(ValueError, match=message):
            check(converted, changed(change))


def test_a_flipped_bit_in_a_dump_is_a_sentence_with_the_file(converted, tmp_path):
    config, random = ElmoModel.from_pretrained(converted(PLAIN)).config, np.random.default_rng(0)
    path = dump(tmp_path / "dump.hdf5", {"0": np.ones((3, 2, 12), "f")}, index={"a b": "0"})
    content = path.read_bytes()
    for place in random.permutation(len(content))[:300]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << random.integers(8)
        path.write_bytes(flipped)
        try:
            with open_weights(path) as weights:
                _Dump(weights, [["a", "b"]], config).compare(0, np.ones((3, 2, 12), "f"))
        except ValueError as error:
            assert str(path) in str(error)
