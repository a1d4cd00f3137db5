"""One sentence on how a model computes."""

from typing import Any

import torch

from . import native_lstm, onednn
from .native import library, supports


def describe_model(model: Any, has_kernels: bool) -> str:
    """How a model computes, with kernels or without: which of them serve it, in which type, on which device.

    Example:

    ```python
    >>> from elmo_hf import ElmoConfig, ElmoModel
    >>> from elmo_hf.kernels.describe import describe_model
    >>> model = ElmoModel(ElmoConfig(character_cnn_filters=[[1, 4]], projection_size=4, cell_size=8))
    >>> describe_model(model, has_kernels=False)
    'plain torch: float32 on cpu, no kernels.'

    ```
    """
    base = model.base_model
    weights = base.bilm.forward_layers[0]
    quantized = weights.weight_input is None
    dtype, device = weights.bias.dtype, weights.bias.device
    type_name = str(dtype).removeprefix("torch.")
    kind = "int8" if quantized else type_name
    if not has_kernels:
        return f"plain torch: {type_name} on {device}, no kernels."
    products = "oneDNN" if onednn.supports(device.type, dtype) else "torch"
    if quantized:
        type_name = f"int8 weights, {type_name} between them,"
        products = "oneDNN in eight bits" if onednn.supports_int8(device.type) else f"{products} as floats"
    native = library() if device.type == "cpu" and supports(kind) else None
    if native is not None and quantized and not onednn.multiplies_matrices():
        products = native.name
    elif native is not None and not weights.bias.shape[0] % (4 * native.lanes):
        most = native_lstm.most_texts(weights.weight_input_int8 if quantized else weights.weight_input)
        products = f"{products} and {native.name}{'' if most is None else f' for up to {most} texts'}"
    elif device.type == "cpu" and library() is None:
        products = f"{products}, without the native library (install a C compiler, then elmo-hf again)"
    threads = f" and {torch.get_num_threads()} threads" if device.type == "cpu" else ""
    return f"kernels: {type_name} on {device} by {products}{threads}."
