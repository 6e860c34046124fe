"""Schemes that only store weights in fewer bits; computation stays in float.

int8-weight    8-bit integers with a scale per output channel
int4-weight    two weights per byte with a scale per 32 weights
fp8            8-bit floats with a scale per output channel
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import ClassVar, final

import torch
from torch import nn

from trueloop.quantize.packed_weights import GROUP, Float8, Int4, Int8, PackedWeight, pack_weights
from trueloop.quantize.scheme import WEIGHT_LAYERS, Calibration, Scheme

__all__ = ["Fp8", "Int4Weight", "Int8Weight"]


class _WeightOnly(Scheme):
    layers = WEIGHT_LAYERS
    packing: ClassVar[type[PackedWeight]]

    def quantize(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return pack_weights(model, names, self.packing)


@final
class Int8Weight(_WeightOnly):
    """Four times smaller with the least loss; not faster."""

    name, packing = "int8-weight", Int8


@final
class Int4Weight(_WeightOnly):
    """Six times smaller, with only sixteen levels: check the costliest layers."""

    name, packing = "int4-weight", Int4

    def bytes_after(self, layer: nn.Module) -> int:
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        groups = len(weight) * -(-weight[0].numel() // GROUP)
        return groups * (GROUP // 2 + 4)


@final
class Fp8(_WeightOnly):
    """As small as int8-weight; better where a few weights are much larger than the rest."""

    name, packing = "fp8", Float8
    refuses = MappingProxyType({"torchscript": "it cannot store 8-bit floats"})
