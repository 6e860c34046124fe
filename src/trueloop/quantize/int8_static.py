"""int8-static: convolutions and linear layers from 8-bit numbers to 8-bit numbers, with ranges found on training
samples."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import final

from torch import nn

from trueloop.quantize.scheme import Calibration, Scheme
from trueloop.quantize.simulated import ranges_of, simulated
from trueloop.quantize.static import LAYERS, Graphed, static_graph

__all__ = ["Int8Static"]


@final
class Int8Static(Scheme):
    """The smallest and, where a runtime has 8-bit kernels, the fastest; needs samples that look like those to come."""

    name = "int8-static"
    about = "convolutions and linear layers in 8 bits throughout, ranges found on training samples"
    layers = LAYERS
    calibrates = True
    rounds_answers = True
    refuses = MappingProxyType({"torchscript": "TorchScript cannot trace the converted graph (use pt2 or onnx)"})

    def quantized(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return static_graph(model, names, calibration)

    def alone(self, model: nn.Module, name: str, calibration: Calibration) -> nn.Module:
        return simulated(model, ranges_of(model, [name], calibration))

    def apart(self, model: nn.Module, measured: float) -> float:
        assert isinstance(model, Graphed)
        return model.apart

    def for_target(self, model: nn.Module, target: str) -> nn.Module:
        assert isinstance(model, Graphed)
        return model if target == "onnx" else model.plain()
