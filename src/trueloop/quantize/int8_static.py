"""int8-static: convolutions and linear layers in 8-bit integers, with input ranges calibrated on training samples."""

from collections.abc import Sequence
from typing import final

from torch import nn

from trueloop.quantize.fake_quant import fake_quantized, input_ranges
from trueloop.quantize.scheme import Calibration, Scheme
from trueloop.quantize.static_graph import LAYERS, REFUSES, static_graph

__all__ = ["Int8Static"]


@final
class Int8Static(Scheme):
    """The smallest and, with 8-bit kernels, the fastest; needs representative samples."""

    name = "int8-static"
    layers = LAYERS
    calibrates = True
    rounds_activations = True
    refuses = REFUSES

    def quantize(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return static_graph(model, names, calibration)

    def quantize_layer(self, model: nn.Module, name: str, calibration: Calibration) -> nn.Module:
        return fake_quantized(model, input_ranges(model, [name], calibration))
