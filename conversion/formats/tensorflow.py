"""The names that versions of TensorFlow give to the variables of a biLM, and sizes that follow from their shapes."""

import re
from dataclasses import replace

from elmo_hf.model.configuration_elmo import ElmoConfig

from ..sources import SourceError
from ..tf_bundle import Checkpoint
from .bilm_hdf5 import weight_map
from .entries import Entry

PLAIN = re.compile(
    r"(?:.*/)?(char_embed|embedding|CNN/[Wb]_cnn_\d+|CNN_high_\d+/[Wb]_(?:carry|transform)|CNN_proj/[Wb]_proj|softmax/[Wb])"
)
# lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel, lm/rnn/lstm_cell/bias,
# bilm/RNN_1/RNN/MultiRNNCell/Cell0/rnn/lstm_cell/projection/kernel, and older TensorFlow's weights and biases
CELL = re.compile(
    r"(?:.*?/)?(?:RNN_([01])/(?:RNN|rnn)|(?<![0-9]/)(?:RNN|rnn))/"
    r"(?:(?:MultiRNNCell|multi_rnn_cell)/[Cc]ell_?(\d+)/)?(?:rnn/)?(?:LSTMCell|lstm_cell)/"
    r"(projection/kernel|projection/weights|W_P_0|kernel|weights|W_0|biases|bias|B)"
)
KINDS = {"kernel": 0, "weights": 0, "W_0": 0, "bias": 1, "biases": 1, "B": 1}
OPTIMIZER = re.compile(r".*/(Adagrad|Adam|Adam_1|Momentum|RMSProp|RMSProp_1|Ftrl|Ftrl_1|ExponentialMovingAverage)")
BOOKKEEPING = re.compile(
    r"(.*/)?(global_step|train_perplexity|beta[12]_power|save_counter|_CHECKPOINTABLE_OBJECT_GRAPH)"
)


def standard_name(name: str) -> str | None:
    """The name of a variable in `weight_map`; None if it does not belong to a biLM.

    >>> standard_name("lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell/projection/kernel")
    'RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0'
    >>> standard_name("lm/rnn/lstm_cell/bias"), standard_name("lm/char_embed/Adagrad")
    ('rnn/MultiRNNCell/Cell0/LSTMCell/bias', None)
    """
    plain, cell = PLAIN.fullmatch(name), CELL.fullmatch(name)
    if plain:
        return plain[1]
    if not cell:
        return None
    direction, layer, kind = cell[1], cell[2] or "0", KINDS.get(cell[3], 2)
    stack = "rnn" if direction is None else f"RNN_{direction}/RNN"
    names = ("kernel", "bias", "projection/kernel") if direction is None else ("W_0", "B", "W_P_0")
    return f"{stack}/MultiRNNCell/Cell{layer}/LSTMCell/{names[kind]}"


def standard_names(checkpoint: Checkpoint) -> dict[str, str]:
    """{name in `weight_map`: name in the checkpoint} of the variables of a biLM and its softmax."""
    names: dict[str, str] = {}
    for name in checkpoint.names():
        standard = standard_name(name)
        if standard is None:
            continue
        if standard in names:
            raise SourceError(f"{checkpoint.where} has two variables for {standard}: {names[standard]} and {name}.")
        names[standard] = name
    if "char_embed" not in names and "embedding" not in names:
        shown = ", ".join(checkpoint.names()[:12]) or "none"
        raise SourceError(
            f"{checkpoint.where} is not a checkpoint of a biLM: neither char_embed nor embedding is among its "
            f"variables, but {shown}."
        )
    return names


def entries_of(config: ElmoConfig, names: dict[str, str]) -> list[Entry]:
    """`weight_map` with the names of a checkpoint."""
    return [replace(entry, dataset=names.get(entry.dataset, entry.dataset)) for entry in weight_map(config)]


def is_bidirectional(names: dict[str, str]) -> bool:
    """Whether there is a backward direction."""
    return any(name.startswith("RNN_1/") for name in names)


def sizes(checkpoint: Checkpoint, names: dict[str, str]) -> dict:
    """The options that follow from shapes: all but clips, skip connections, activation and length of words."""

    def shape(standard: str, dimensions: int) -> tuple[int, ...]:
        if standard not in names:
            raise SourceError(f"{checkpoint.where} has no variable for {standard}, which every such model has.")
        sizes = checkpoint.shape(names[standard])
        if len(sizes) != dimensions:
            raise SourceError(
                f"{checkpoint.where}: {names[standard]} has the shape {sizes}; expected {dimensions} dimensions."
            )
        return sizes

    def count(pattern: str) -> int:
        return sum(re.fullmatch(pattern, name) is not None for name in names)

    has_both = is_bidirectional(names)
    stack = ("RNN_0/RNN" if has_both else "rnn") + "/MultiRNNCell/Cell0/LSTMCell/"
    rows, gates = shape(stack + ("W_0" if has_both else "kernel"), 2)
    filters = [list(shape(f"CNN/W_cnn_{i}", 4))[1::2] for i in range(count(r"CNN/W_cnn_\d+"))]
    kernels = r"RNN_0/.*/W_0" if has_both else r"rnn/.*/kernel(?<!projection/kernel)"
    return {
        "lstm": {"dim": gates // 4, "projection_dim": rows // 2, "n_layers": count(kernels)},
        "char_cnn": {
            "embedding": {"dim": shape("char_embed", 2)[1]},
            "filters": filters,
            "n_highway": count(r"CNN_high_\d+/W_carry"),
        },
    }
