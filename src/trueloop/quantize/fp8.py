"""fp8: weights as 8-bit floats with a scale per output channel; computation in fp32."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import final

from torch import nn

from trueloop.quantize.packed_weights import Float8, pack_weights
from trueloop.quantize.scheme import WEIGHT_LAYERS, Calibration, Scheme

__all__ = ["Fp8"]


@final
class Fp8(Scheme):
    """As small as int8-weight; better where a few weights are much larger than the rest."""

    name = "fp8"
    layers = WEIGHT_LAYERS
    refuses = MappingProxyType({"torchscript": "it cannot store 8-bit floats"})

    def quantize(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return pack_weights(model, names, Float8)
