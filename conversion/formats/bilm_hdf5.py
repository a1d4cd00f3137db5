"""options.json and weights.hdf5, the files of bilm-tf, which AllenNLP, simple-elmo, NLPL and SeqVec use too."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from elmo_hf.model.configuration_elmo import ElmoConfig

from ..hdf5 import Hdf5Weights, open_weights
from ..known_files import released_weights
from ..options import config_from_options, read_options
from ..sources import Bundle, find_files, has_files
from .entries import TRANSPOSED, WITH_ZERO_ROW, Entry, Form
from .source import Extras, Format, Part, Source, megabytes, softmax_rows, with_vocabulary

# A file of weights may also hold the softmax, and a cache of token vectors.
OTHER_DATASETS = ("softmax/", "embedding")
# The file of a softmax by itself, beside the weights.
SOFTMAX = re.compile(r"softmax[^/]*\.(?:hdf5|h5)$", re.IGNORECASE)

# (1, width, D, n) <-> (n, D, width)
CONVOLUTION = Form(lambda x: (x.squeeze(0).transpose(2, 1, 0),), lambda x: x.transpose(2, 1, 0)[None])
# Rows [x; h] (2P, 4H) <-> two matrices (4H, P)
INPUT_AND_RECURRENT = Form(
    lambda x: (x[: len(x) // 2].T, x[len(x) // 2 :].T), lambda x, h: np.concatenate([x, h], axis=1).T
)


@contextmanager
def open_source(bundle: Bundle, extras: Extras) -> Iterator[Source]:
    """Opens options, weights, and a vocabulary and a softmax if there are any."""
    files = find_files(bundle)
    where, vocabulary = bundle.show(files.options), extras.vocabulary or files.vocabulary
    with ExitStack() as stack:
        weights = stack.enter_context(open_weights(files.weights, bundle.show(files.weights)))
        bidirectional = any(name.startswith("RNN_1/") for name in weights.names())
        config = config_from_options(read_options(files.options), bidirectional, where)
        with_vocabulary(config, vocabulary, where)
        others = tuple(name for name in OTHER_DATASETS if not config.word_input or name != "embedding")
        parts = [Part(weights, weight_map(config, _stacks(config, weights)), others)]
        softmax = weights
        if extras.softmax is not None:
            softmax = stack.enter_context(open_weights(extras.softmax))
        if extras.softmax is not None or "softmax/W" in weights.names():
            config.vocab_size = softmax_rows(softmax, "softmax/W", config, vocabulary)
            others = tuple(name for name in softmax.names() if not name.startswith("softmax/"))
            parts.append(Part(softmax, softmax_map(config), others))
        release, warning = released_weights(files.weights)
        notes = [warning] if warning else []
        beside = [name for name in bundle.top if SOFTMAX.search(name)]
        if len(parts) == 1 and beside and not bundle.pair:
            notes.append(
                f"{beside[0]} is left out. With --vocabulary and --softmax and the names of these files (`vocabulary` "
                "and `softmax` in Python) the result is a language model."
            )
        description = (
            f"{files.options.name}, {files.weights.name} ({len(weights.names())} datasets, "
            f"{megabytes(files.weights.stat().st_size)})"
        )
        yield Source(
            config,
            parts,
            f"{description}, the released {release}" if release else description,
            vocabulary=vocabulary,
            notes=notes,
            release=release,
        )


def _stacks(config: ElmoConfig, weights: Hdf5Weights) -> list[str]:
    """The names of the LSTM layers in this file, one of `lstm_stacks`."""
    known = lstm_stacks(config.bidirectional, config.num_hidden_layers)
    for stacks in known:
        prefix = stacks[0].format(layer=0) + "/"
        if any(name.startswith(prefix) for name in weights.names()):
            return stacks
    return known[0]


def weight_map(config: ElmoConfig, stacks: list[str] | None = None) -> list[Entry]:
    """Every dataset of a model.

    Args:
        config: the model's sizes.
        stacks: the names of the layers of each direction, with `{layer}`; see [`lstm_stacks`]. Default: the names that
            bilm-tf writes.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig
    >>> from elmo_hf.conversion import weight_map
    >>> entry = weight_map(ElmoConfig())[-1]
    >>> entry.dataset, entry.shape, entry.parameters[0]
    ('RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0', (4096, 512), 'bilm.backward_layers.1.weight_projection')

    ```
    """
    stacks = stacks or lstm_stacks(config.bidirectional, config.num_hidden_layers)[0]
    entries = _word_entries(config) if config.word_input else _character_entries(config)
    for direction, stack in zip(("forward", "backward"), stacks, strict=False):
        for layer in range(config.num_hidden_layers):
            entries += _lstm_entries(config, stack.format(layer=layer), f"bilm.{direction}_layers.{layer}")
    return entries


def softmax_map(config: ElmoConfig) -> list[Entry]:
    """The datasets of the language model's softmax, which bilm-tf stores in a separate file or not at all."""
    words, size = config.vocab_size, config.projection_size
    return [
        Entry("softmax/W", (words, size), ("softmax.weight",)),
        Entry("softmax/b", (words,), ("softmax.bias",)),
    ]


def lstm_stacks(bidirectional: bool, layers: int) -> list[list[str]]:
    """The names that programs have given the LSTM layers; the first one is written by `export`."""
    if bidirectional:
        names = [[f"RNN_{d}/RNN/MultiRNNCell/Cell{{layer}}/LSTMCell" for d in (0, 1)]]
        return names + ([[f"RNN_{d}/RNN/LSTMCell" for d in (0, 1)]] if layers == 1 else [])
    return [["rnn/MultiRNNCell/Cell{layer}/LSTMCell"]] + ([["rnn/LSTMCell"]] if layers == 1 else [])


def _word_entries(config: ElmoConfig) -> list[Entry]:
    shape = (config.vocab_size, config.projection_size)
    return [Entry("embedding", shape, ("token_encoder.embedding.weight",), WITH_ZERO_ROW)]


def _character_entries(config: ElmoConfig) -> list[Entry]:
    dim, size, projection = config.character_embedding_dim, config.token_filters, config.projection_size
    encoder = "token_encoder"
    rows = config.character_vocab_size - 1
    entries = [Entry("char_embed", (rows, dim), (f"{encoder}.embedding.weight",), WITH_ZERO_ROW)]
    for i, (width, number) in enumerate(config.character_cnn_filters):
        name = f"{encoder}.convolutions.{i}"
        entries.append(Entry(f"CNN/W_cnn_{i}", (1, width, dim, number), (f"{name}.weight",), CONVOLUTION))
        entries.append(Entry(f"CNN/b_cnn_{i}", (number,), (f"{name}.bias",)))
    for k in range(config.num_highway_layers):
        for gate in ("carry", "transform"):
            name = f"{encoder}.highways.{k}.{gate}"
            entries.append(Entry(f"CNN_high_{k}/W_{gate}", (size, size), (f"{name}.weight",), TRANSPOSED))
            entries.append(Entry(f"CNN_high_{k}/b_{gate}", (size,), (f"{name}.bias",)))
    if size != projection:
        entries.append(Entry("CNN_proj/W_proj", (size, projection), (f"{encoder}.projection.weight",), TRANSPOSED))
        entries.append(Entry("CNN_proj/b_proj", (projection,), (f"{encoder}.projection.bias",)))
    return entries


def _lstm_entries(config: ElmoConfig, stack: str, layer: str) -> list[Entry]:
    size, cell = config.projection_size, config.cell_size
    # A model of one direction has the names of TensorFlow's own cell.
    kernel, bias, projection = (
        ("W_0", "B", "W_P_0") if config.bidirectional else ("kernel", "bias", "projection/kernel")
    )
    halves = (f"{layer}.weight_input", f"{layer}.weight_recurrent")
    entries = [
        Entry(f"{stack}/{kernel}", (2 * size, 4 * cell), halves, INPUT_AND_RECURRENT),
        Entry(f"{stack}/{bias}", (4 * cell,), (f"{layer}.bias",)),
    ]
    if cell != size:
        entries.append(Entry(f"{stack}/{projection}", (cell, size), (f"{layer}.weight_projection",), TRANSPOSED))
    return entries


FORMAT = Format(
    name="bilm-hdf5",
    title="bilm-tf's options.json and HDF5 weights",
    have="options.json and weights.hdf5 (bilm-tf, AllenNLP, SeqVec), or a folder or zip with both (NLPL)",
    type="convert options.json weights.hdf5 OUT, or convert 217.zip OUT",
    recognises=has_files,
    open=open_source,
)
