"""int4-weight: two weights in a byte, a scale for each 32 of them; everything is computed in float."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import nn

from trueloop.quantize.scheme import CONVOLUTIONS, TABLES, Calibration, Scheme
from trueloop.quantize.stored import GROUP, Int4, with_stored

__all__ = ["Int4Weight"]


@final
class Int4Weight(Scheme):
    """Six times smaller; sixteen steps are few: look at the layers that cost most."""

    name = "int4-weight"
    about = f"weights in 4 bits, {GROUP} to a scale, computed in float"
    layers = (nn.Linear, *CONVOLUTIONS, *TABLES)

    def quantized(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return with_stored(model, names, Int4)

    def bytes_after(self, layer: nn.Module) -> int:
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        groups = len(weight) * -(-weight[0].numel() // GROUP)
        return groups * (GROUP // 2 + 4)
