"""Export to ONNX: one file for batches of any size and length, which onnxruntime runs without this package or torch.

An exporter would unroll the model's loop over time to one fixed length. Here the same cell runs in torch's scan, which
becomes a Scan node of ONNX for each layer and direction.
"""

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from elmo_hf.model.modeling_elmo import ElmoModel, LstmWeights, linear, lstm_step, word_mask

OPSET = 20
MAX_PROTOBUF = 2_000_000_000  # bytes; the weights of larger models are written to a second file
# The scan of older versions of torch exports only for fixed sizes, if it is there.
CAN_EXPORT = torch.torch_version.TorchVersion(torch.__version__) >= "2.13"
MISSING = "Writing ONNX needs the packages onnx and onnxscript: pip install 'elmo-hf[onnx]'."


class _Scanned(nn.Module):
    """An ElmoModel from whole rows of ids and a mask to the mix and all layers, with scans in place of loops."""

    def __init__(self, model: ElmoModel, scan: Callable):
        super().__init__()
        self.model, self.scan = model, scan

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        model, mask = self.model, attention_mask.bool()  # (B, T)
        tokens = self._tokens(input_ids, mask)  # (B, T, P)
        steps = mask.t().unsqueeze(-1)  # (T, B, 1)
        by_direction = []
        for number, stack in enumerate(model.bilm.directions):
            x, is_token = tokens.transpose(0, 1), steps  # (T, B, P)
            if number:
                x, is_token = x.flip(0), is_token.flip(0)
            outputs = []
            for layer, weights in zip(model.bilm.layers, stack, strict=True):
                x = self._layer(layer, LstmWeights(*weights(x)), x, is_token)
                outputs.append((x.flip(0) if number else x).transpose(0, 1))
            by_direction.append(outputs)
        first = torch.cat([tokens] * len(by_direction), -1)
        layers = (first, *(torch.cat(pair, -1) for pair in zip(*by_direction, strict=True)))
        words = word_mask(model.config, mask, input_ids)
        return model.scalar_mix(layers, mask, words), torch.stack(layers, 1)  # (B, T, hidden), (B, L + 1, T, hidden)

    def _tokens(self, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        encoder: Any = self.model.token_encoder
        if self.model.config.word_input:
            vectors = encoder.embedding(input_ids)
        else:
            vectors = encoder.encode(input_ids.flatten(0, 1)).unflatten(0, (input_ids.shape[0], input_ids.shape[1]))
        return torch.where(mask[..., None], vectors, 0.0)

    def _layer(self, layer: Any, weights: LstmWeights, x: torch.Tensor, is_token: torch.Tensor) -> torch.Tensor:
        cells = weights.bias.shape[0] // 4

        def step(state, inputs):
            (h, c), (x_step, is_token_step) = state, inputs
            gates = linear(x_step, weights.input, weights.bias)
            new_h, new_c = lstm_step(gates, h, c, weights, layer.cell_clip, layer.projection_clip)
            return [torch.where(is_token_step, new_h, h), torch.where(is_token_step, new_c, c)], torch.where(
                is_token_step, new_h, 0.0
            )

        start = [x.new_zeros(x.shape[1], x.shape[2]), x.new_zeros(x.shape[1], cells)]
        _, outputs = self.scan(step, start, [x, is_token])
        return outputs + x if layer.skip else outputs


def write(model: ElmoModel, path: Path):
    """Writes `model` as an ONNX file with the inputs `input_ids` and `attention_mask`, both int64.

    Its outputs are `last_hidden_state` (B, T, hidden), the mix, and `hidden_states` (B, L + 1, T, hidden).
    """
    config = model.config
    if config.int8_weights:
        raise ValueError("This model has its weights in eight bits. Expected the float model from which it was made.")
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise ValueError(MISSING) from None
    if not CAN_EXPORT:
        raise ValueError(
            f"torch {torch.__version__} cannot export a loop over a batch of any size. Expected torch 2.13 or later."
        )
    from torch._higher_order_ops.scan import scan  # not public; torch has no other loop that exports

    shape = (2, 3) if config.word_input else (2, 3, config.row_width)
    ids = torch.ones(shape, dtype=torch.long)
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    sizes = {0: batch, 1: length}
    large = sum(p.numel() * p.element_size() for p in model.parameters()) > MAX_PROTOBUF
    noisy = logging.getLogger("torch.onnx")
    level = noisy.level
    noisy.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of what the exporter itself calls
            torch.onnx.export(
                _Scanned(model.eval(), scan),
                (ids, torch.ones(shape[:2], dtype=torch.long)),
                path,
                dynamo=True,
                opset_version=OPSET,
                input_names=["input_ids", "attention_mask"],
                output_names=["last_hidden_state", "hidden_states"],
                dynamic_shapes=(sizes, sizes),
                external_data=large,
                verbose=False,
            )
    finally:
        noisy.setLevel(level)
