"""int8-dynamic: linear layers multiply 8-bit integers; the scale of the inputs is computed per row at run time.

Convolutions and embeddings store 8-bit weights and compute in float: they have no rows to scale.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, final

import torch
from torch import Tensor, nn

from trueloop.quantize.packed_weights import Int8, pack_weights, replace_module
from trueloop.quantize.scheme import WEIGHT_LAYERS, Calibration, Scheme
from trueloop.torch_private.tensors import int8_matmul

__all__ = ["Int8Dynamic"]

LEAST: Final = 1e-10  # Scale of an all-zero row: avoids division by zero


@final
class Int8Dynamic(Scheme):
    """Needs no calibration; faster where linear layers are large."""

    name = "int8-dynamic"
    layers = WEIGHT_LAYERS
    rounds_activations = True
    refuses = MappingProxyType(
        {"onnx": "torch's ONNX exporter has no product of 8-bit matrices (use int8-static or int8-weight)"}
    )

    def quantize(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        linear = [name for name in names if isinstance(model.get_submodule(name), nn.Linear)]
        made = pack_weights(model, [name for name in names if name not in linear], Int8)
        for name in linear:
            layer = made.get_submodule(name)
            assert isinstance(layer, nn.Linear)
            replace_module(made, name, _DynamicLinear(layer))
        return made.eval()


@final
class _DynamicLinear(nn.Module):
    """An `nn.Linear` in 8-bit integers."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.packed = Int8(layer.weight.shape)
        values, scale = self.packed.right_inverse(layer.weight.detach())
        self.register_buffer("values", values)
        self.register_buffer("scale", scale)
        self.bias = layer.bias

    @property
    def weight(self) -> Tensor:
        """In float, for a layer that reads it directly."""
        weight: Tensor = self.packed(self.get_buffer("values"), self.get_buffer("scale"))
        return weight

    def forward(self, inputs: Tensor) -> Tensor:
        values, scale = self.get_buffer("values"), self.get_buffer("scale")
        rows = inputs.reshape(-1, inputs.shape[-1])
        steps = (rows.abs().amax(1, keepdim=True) / 127).clamp(min=LEAST)
        integers = (rows / steps).round().clamp(-127, 127).to(torch.int8)
        summed = int8_matmul(integers, values.t()).to(scale.dtype) * steps * scale.reshape(1, -1)
        output = summed if self.bias is None else summed + self.bias
        return output.reshape(*inputs.shape[:-1], len(values))
