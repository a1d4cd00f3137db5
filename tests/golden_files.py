"""The golden checkpoints: weights in the original format, with the vectors and states that bilm computed from them.

tests/golden holds sixteen small random checkpoints. Two trained ones, `allennlp` and `bilm-tf`, are read from
../shared/fixtures beside the checkout, where that exists.

Two of the random checkpoints, `clips-bind` and `no-clips`, have weights so large that the recurrence multiplies every
rounding error from token to token: in float32, bilm and any other program end up to 6 away from the exact values.
Their `expands_rounding` is true. A whole run of theirs is compared with ReferenceBilm in float64, whose own rounding
stays below 1e-7, and only single steps are compared with the files, to `step_tolerance`.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
from reference_bilm import ReferenceBilm

TESTS = Path(__file__).resolve().parent
SHARED_FIXTURES = TESTS.parent.parent / "shared" / "fixtures"
BATCH_SIZE = 3  # the expected vectors were computed in batches of three sentences, in order
DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class GoldenCheckpoint:
    """The files of a checkpoint, and what they hold."""

    name: str
    options: Path
    weights: Path
    sentences_file: Path
    expected: Path
    vocabulary: Path | None
    expands_rounding: bool = False
    tolerance: float = 2e-6  # the largest difference of a whole run, unless expands_rounding

    @property
    def step_tolerance(self):
        """The largest difference of one step that starts from bilm's own state and inputs."""
        return 1e-5 if self.expands_rounding else self.tolerance

    @property
    def available(self):
        return self.expected.exists() and self.weights.exists()

    @cached_property
    def sentences(self):
        """The sentences: a list of lists of words, without <S> and </S>."""
        return json.loads(self.sentences_file.read_text(encoding="utf-8"))

    @cached_property
    def options_content(self):
        return json.loads(self.options.read_text(encoding="utf-8"))

    @cached_property
    def arrays(self):
        return load_arrays(self.weights)

    @cached_property
    def expected_arrays(self):
        with np.load(self.expected) as arrays:
            return dict(arrays)

    @property
    def word_input(self):
        return "char_cnn" not in self.options_content

    @cached_property
    def word_ids(self):
        """Word -> id: line k of the vocabulary is k + 1, because 0 means padding."""
        words = self.vocabulary.read_text(encoding="utf-8").split("\n")
        return {word: k + 1 for k, word in enumerate(words) if word}

    def rows(self, words):
        """One row of character ids (or one word id) per token, <S> and </S> included."""
        if self.word_input:
            return [self.word_ids.get(word, self.word_ids["<UNK>"]) for word in ["<S>", *words, "</S>"]]
        return ReferenceBilm.rows(words, self.options_content["char_cnn"]["max_characters_per_token"])

    def batches(self):
        """The batches in order, each a list of (number of the sentence, its words)."""
        numbered = list(enumerate(self.sentences))
        return [numbered[start : start + BATCH_SIZE] for start in range(0, len(numbered), BATCH_SIZE)]

    def expected_layers(self, mode, sentence):
        """(L + 1, words, 2P) of one sentence, without <S> and </S>; mode is "stateful" or "stateless"."""
        return self.expected_arrays[f"{mode}/{sentence}"]

    def expected_states(self, mode, batch):
        """The states after a batch in the form of ReferenceBilm: states[row][direction][layer] = (h, c)."""
        arrays, prefix = self.expected_arrays, f"{mode}/state/{batch}"
        layers = range(self.options_content["lstm"]["n_layers"])
        rows = range(len(arrays[f"{prefix}/forward/0/h"]))
        return [
            [
                [tuple(arrays[f"{prefix}/{d}/{layer}/{part}"][row] for part in "hc") for layer in layers]
                for d in DIRECTIONS
            ]
            for row in rows
        ]


def load_arrays(path):
    """Every dataset of an HDF5 file: {path inside the file: array}."""
    arrays = {}

    def collect(name, item):
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(collect)
    return arrays


def random_checkpoint(folder):
    return GoldenCheckpoint(
        name=folder.name,
        options=folder / "options.json",
        weights=folder / "weights.hdf5",
        sentences_file=folder / "sentences.json",
        expected=folder / "expected.npz",
        vocabulary=folder / "vocab.txt",
        expands_rounding=folder.name in ("clips-bind", "no-clips"),
    )


def trained_checkpoint(name):
    files, golden = SHARED_FIXTURES / name, SHARED_FIXTURES / "golden" / name
    return GoldenCheckpoint(
        name=name,
        options=files / "options.json",
        weights=files / "lm_weights.hdf5",
        sentences_file=golden / "sentences.json",
        expected=golden / "expected.npz",
        vocabulary=files / "vocab_test.txt",
    )


RANDOM = {folder.name: random_checkpoint(folder) for folder in sorted((TESTS / "golden").iterdir())}
TRAINED = {name: trained_checkpoint(name) for name in ("allennlp", "bilm-tf")}
GOLDEN = {**RANDOM, **TRAINED}


def golden_checkpoints():
    """The checkpoints of GOLDEN whose files exist."""
    return [checkpoint for checkpoint in GOLDEN.values() if checkpoint.available]


def run(model, checkpoint, mode):
    """The layers of every sentence, without <S> and </S> as in the expected files, and the states after each batch."""
    layers, states, carried = [], [], None
    for sentences in checkpoint.batches():
        outputs, final = model([checkpoint.rows(words) for _, words in sentences], carried)
        layers += [sentence[:, 1:-1] for sentence in outputs]
        states.append(final)
        carried = final if mode == "stateful" else None
    return layers, states


def leaves(states):
    return [array for state in states for direction in state for layer in direction for array in layer]


def largest_difference(actual, expected):
    assert [array.shape for array in actual] == [array.shape for array in expected]
    return max(np.abs(left - right).max() for left, right in zip(actual, expected, strict=True))


def run_differences(model, checkpoint, mode):
    """The largest difference of a whole run from bilm's: (of all layers, of all final states).

    `model` is called, and has a `step`, as ReferenceBilm.
    """
    layers, states = run(model, checkpoint, mode)
    expected = [checkpoint.expected_layers(mode, number) for number in range(len(checkpoint.sentences))]
    of_states = [
        largest_difference(leaves(after_batch), leaves(checkpoint.expected_states(mode, batch)))
        for batch, after_batch in enumerate(states)
    ]
    return largest_difference(layers, expected), max(of_states)


def step_differences(model, checkpoint, mode):
    """The largest difference of single steps from bilm's: (of outputs, of final states).

    Errors cannot accumulate: each step starts from bilm's own h, and each layer from bilm's own inputs. Only c, which
    the files hold for the end of a batch alone, is carried by the model through the sentence.
    """
    worst_output, worst_state = 0.0, 0.0
    size, state = model.projection_size, None
    for batch, sentences in enumerate(checkpoint.batches()):
        start = state if mode == "stateful" and batch else [model.zero_state()] * len(sentences)
        state = checkpoint.expected_states(mode, batch)
        for row, (number, words) in enumerate(sentences):
            for direction in range(model.num_directions):
                expected = checkpoint.expected_layers(mode, number)[..., direction * size : (direction + 1) * size]
                inputs = np.array([model.token_vector(token) for token in checkpoint.rows(words)])  # (tokens, P)
                worst_output = max(worst_output, largest_difference([inputs[1:-1]], [expected[0]]))
                inputs[1:-1] = expected[0]
                order = range(len(inputs)) if direction == 0 else range(len(inputs))[::-1]
                for layer in range(model.num_layers):
                    skip = layer > 0 and model.use_skip_connections
                    h, c = start[row][direction][layer]
                    outputs = np.empty_like(inputs)
                    for at in order:
                        h, c = model.step(direction, layer, inputs[at], h, c)
                        outputs[at] = h + inputs[at] if skip else h
                        if at not in (0, len(inputs) - 1):  # the files do not hold the outputs at <S> and </S>
                            worst_output = max(worst_output, np.abs(outputs[at] - expected[layer + 1, at - 1]).max())
                            outputs[at] = expected[layer + 1, at - 1]
                            h = outputs[at] - inputs[at] if skip else outputs[at]
                    worst_state = max(worst_state, largest_difference([h, c], state[row][direction][layer]))
                    inputs = outputs
    return worst_output, worst_state
