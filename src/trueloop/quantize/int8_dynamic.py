"""int8-dynamic: linear layers multiply 8-bit numbers by 8-bit numbers; the scale of what comes in is found anew for
each row.

Convolutions and embeddings keep their weights in 8 bits and compute in float: there is no row to find a scale for.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, final

import torch
from torch import Tensor, nn

from trueloop.quantize.scheme import CONVOLUTIONS, TABLES, Calibration, Scheme
from trueloop.quantize.stored import Int8, replaced, with_stored
from trueloop.torch_private.tensors import int8_matmul

__all__ = ["Int8Dynamic"]

LEAST: Final = 1e-10
"""Scale of a row of zeros: no division by zero."""


@final
class Int8Dynamic(Scheme):
    """Needs no calibration; faster where linear layers are large."""

    name = "int8-dynamic"
    about = "linear layers in 8 bits, inputs rounded row by row; other weights in 8 bits, computed in float"
    layers = (nn.Linear, *CONVOLUTIONS, *TABLES)
    rounds_answers = True
    refuses = MappingProxyType(
        {"onnx": "ONNX has no product of 8-bit matrices that torch's exporter knows (use int8-static or int8-weight)"}
    )

    def quantized(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        linear = [name for name in names if isinstance(model.get_submodule(name), nn.Linear)]
        made = with_stored(model, [name for name in names if name not in linear], Int8)
        for name in linear:
            layer = made.get_submodule(name)
            assert isinstance(layer, nn.Linear)
            replaced(made, name, _Dynamic(layer))
        return made.eval()


@final
class _Dynamic(nn.Module):
    """An `nn.Linear` in whole numbers."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.stored = Int8(layer.weight.shape)
        values, scale = self.stored.right_inverse(layer.weight.detach())
        self.register_buffer("values", values)
        self.register_buffer("scale", scale)
        self.bias = layer.bias

    @property
    def weight(self) -> Tensor:
        """In float, for a layer that reads it itself."""
        whole: Tensor = self.stored(self.get_buffer("values"), self.get_buffer("scale"))
        return whole

    def forward(self, given: Tensor) -> Tensor:
        values, scale = self.get_buffer("values"), self.get_buffer("scale")
        rows = given.reshape(-1, given.shape[-1])
        steps = (rows.abs().amax(1, keepdim=True) / 127).clamp(min=LEAST)
        whole = (rows / steps).round().clamp(-127, 127).to(torch.int8)
        summed = int8_matmul(whole, values.t()).to(scale.dtype) * steps * scale.reshape(1, -1)
        answered = summed if self.bias is None else summed + self.bias
        return answered.reshape(*given.shape[:-1], len(values))
