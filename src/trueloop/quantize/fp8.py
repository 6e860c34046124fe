"""fp8: weights as 8-bit floats with a scale for each output; everything is computed in single precision."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import final

from torch import nn

from trueloop.quantize.scheme import CONVOLUTIONS, TABLES, Calibration, Scheme
from trueloop.quantize.stored import Float8, with_stored

__all__ = ["Fp8"]


@final
class Fp8(Scheme):
    """As small as int8-weight; better where a few weights are much larger than the rest."""

    name = "fp8"
    about = "weights as 8-bit floats (e4m3), computed in float"
    layers = (nn.Linear, *CONVOLUTIONS, *TABLES)
    refuses = MappingProxyType({"torchscript": "its files hold no 8-bit floats"})

    def quantized(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return with_stored(model, names, Float8)
