"""Datasets of the originals' HDF5 <-> parameters, as a table that is read in both directions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elmo_hf.model.configuration_elmo import ElmoConfig

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Form:
    """How the values of one dataset lie in one or more parameters, and back."""

    to_parameters: Callable[[np.ndarray], Arrays]
    to_dataset: Callable[..., np.ndarray]


SAME = Form(lambda x: (x,), lambda x: x)
TRANSPOSED = Form(lambda x: (x.T,), lambda x: x.T)
# (1, width, D, n) <-> (n, D, width)
CONVOLUTION = Form(lambda x: (x.squeeze(0).transpose(2, 1, 0),), lambda x: x.transpose(2, 1, 0)[None])
# Row 0 of an embedding means "no token" and is not in the file.
WITH_ZERO_ROW = Form(lambda x: (np.concatenate([np.zeros_like(x[:1]), x]),), lambda x: x[1:])
# Rows [x; h] (2P, 4H) <-> two matrices (4H, P)
INPUT_AND_RECURRENT = Form(
    lambda x: (x[: len(x) // 2].T, x[len(x) // 2 :].T), lambda x, h: np.concatenate([x, h], axis=1).T
)


@dataclass(frozen=True)
class Entry:
    """One dataset: its name and shape in the file, its parameters, and how the two correspond."""

    dataset: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    form: Form = SAME


def weight_map(config: ElmoConfig, stacks: list[str] | None = None) -> list[Entry]:
    """Every dataset of a model.

    Args:
        config: the model's sizes.
        stacks: names under which the layers of each direction stand, with `{layer}`; see [`lstm_stacks`]. Not given:
            those that the originals write.

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
    """The datasets of the language model's softmax, which the originals keep in a separate file or not at all."""
    words, size = config.vocab_size, config.projection_size
    return [
        Entry("softmax/W", (words, size), ("softmax.weight",)),
        Entry("softmax/b", (words,), ("softmax.bias",)),
    ]


def lstm_stacks(bidirectional: bool, layers: int) -> list[list[str]]:
    """The names under which programs have written the LSTM layers, the one that we write first."""
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
    # A model of one direction keeps the names of TensorFlow's own cell.
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
