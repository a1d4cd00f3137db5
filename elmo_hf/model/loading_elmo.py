"""What a saved model must hold: weights that can be read, of the shapes that config.json asks for, all there."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

# Without these a model would compute with random numbers; a head or a mix may be new.
NEEDED = ("token_encoder.", "bilm.", "softmax.weight_int8")


@contextmanager
def reading_weights(name: Any) -> Iterator[None]:
    """Says of weights that cannot be read whose they are."""
    try:
        yield
    except SafetensorError as error:
        raise OSError(f"{_weights_of(name)} are broken and cannot be read: {error}.") from error


def check_loaded(model: nn.Module, name: Any, missing: Iterable[str], mismatched: Iterable[tuple[str, Any, Any]]):
    """Raises if weights have other shapes than the model, or if any of the biLM is not there.

    Args:
        model: the model that was made after config.json.
        name: where the weights are from.
        missing: names of weights that were not found.
        mismatched: name, shape found and shape expected.
    """
    wrong = sorted((key, tuple(found), tuple(expected)) for key, found, expected in mismatched)
    if wrong:
        key, found, expected = wrong[0]
        raise ValueError(
            f"{_weights_of(name)} do not fit config.json: {key} has the shape {list(found)}, and {list(expected)} is "
            f"expected{_and_others(wrong)}. Accepted are the two files as they were saved together "
            "(`ignore_mismatched_sizes=True` begins such weights anew)."
        )
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    prefix = f"{model.base_model_prefix}."
    absent = sorted(key for key in missing if key.removeprefix(prefix).startswith(NEEDED))
    absent = [key for key in absent if key not in tied and key not in tied.values()]
    if absent:
        raise ValueError(
            f"{_weights_of(name)} do not fit config.json: {absent[0]} is not among them{_and_others(absent)}. "
            "Accepted are the two files as they were saved together."
        )


def _weights_of(name: Any) -> str:
    """The file of the weights where it can be told, as `The weights in DIR/model.safetensors`."""
    folder = Path(name) if isinstance(name, (str, os.PathLike)) else None
    if folder is None or not folder.is_dir():
        return f"The weights of {name}"
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    return f"The weights in {files[0] if len(files) == 1 else folder}"


def _and_others(these: list) -> str:
    return f" (and {len(these) - 1} more)" if len(these) > 1 else ""


__all__ = ["check_loaded", "reading_weights"]
