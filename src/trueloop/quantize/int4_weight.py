"""int4-weight: two weights per byte with a scale per 32 weights; computation in float."""

from collections.abc import Sequence
from typing import final

import torch
from torch import nn

from trueloop.quantize.packed_weights import GROUP, Int4, pack_weights
from trueloop.quantize.scheme import WEIGHT_LAYERS, Calibration, Scheme

__all__ = ["Int4Weight"]


@final
class Int4Weight(Scheme):
    """Six times smaller, with only sixteen levels: check the costliest layers."""

    name = "int4-weight"
    layers = WEIGHT_LAYERS

    def quantize(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return pack_weights(model, names, Int4)

    def bytes_after(self, layer: nn.Module) -> int:
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        groups = len(weight) * -(-weight[0].numel() // GROUP)
        return groups * (GROUP // 2 + 4)
