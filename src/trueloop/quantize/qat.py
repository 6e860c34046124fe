"""qat: the model learns on, for a few passes over training samples, while it is rounded as int8-static will round it; then it is.

What it learns is to answer as the task asks in spite of the rounding. Norms keep their averages, and the run's checkpoint stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, final

import torch
from torch import nn

from trueloop.engine.randomness import fence
from trueloop.quantize.scheme import Calibration, Scheme
from trueloop.quantize.simulated import ranges_of, rounding, simulated
from trueloop.quantize.static import LAYERS, Graphed, static_graph

__all__ = ["Qat"]

PASSES: Final = 4
"""Over the training samples that it is given."""
RATE: Final = 1e-4
"""Of Adam: small against any rate that the model was trained with; it is to move weights by a step of rounding, and no further."""


@final
class Qat(Scheme):
    """Dearer than int8-static, and closer to the float model where that loses too much."""

    name = "qat"
    about = "trained on with rounding, then as int8-static"
    layers = LAYERS
    calibrates = True
    rounds_answers = True
    refuses = MappingProxyType({"torchscript": "TorchScript cannot trace the converted graph (use pt2 or onnx)"})

    def quantized(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return static_graph(_learned(model, names, calibration), names, calibration)

    def alone(self, model: nn.Module, name: str, calibration: Calibration) -> nn.Module:
        return simulated(model, ranges_of(model, [name], calibration))

    def apart(self, model: nn.Module, measured: float) -> float:
        assert isinstance(model, Graphed)
        return model.apart  # what it has learned since is no rounding

    def for_target(self, model: nn.Module, target: str) -> nn.Module:
        assert isinstance(model, Graphed)
        return model if target == "onnx" else model.plain()


def _learned(model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
    """A copy in evaluation mode throughout, so that dropout and norms are as they will be."""
    made = copy.deepcopy(model).eval().requires_grad_(True)
    task = calibration.subject.task
    with torch.enable_grad(), fence(calibration.subject.recipe.seed), rounding(made, ranges_of(made, names, calibration)):
        optimizer = torch.optim.Adam(made.parameters(), lr=RATE)
        for epoch in range(PASSES):
            for batch in calibration.batches(epoch=epoch):
                optimizer.zero_grad()
                loss = task.loss_sum(made(batch.inputs), batch.targets) / max(1, int(task.count(batch.targets)))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return made.requires_grad_(False)
