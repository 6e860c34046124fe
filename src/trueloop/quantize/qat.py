"""qat: the model learns on, for a few passes over training samples, while it is rounded as int8-static will round it;
then it is.

What it learns is to answer as the task asks in spite of the rounding. Norms keep their averages, and the run's
checkpoint stays as it is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, final

import torch
from torch import nn

from trueloop.measure.randomness import fence
from trueloop.quantize.scheme import Calibration, Scheme
from trueloop.quantize.simulated import ranges_of, rounding, simulated
from trueloop.quantize.static import LAYERS, Graphed, static_graph

__all__ = ["Qat"]

PASSES: Final = 4
"""Over the training samples that it is given."""
STRIDE: Final = 0.1
"""Of Adam, for the weights and biases of a layer that is rounded: a part of its step of rounding. It falls to nothing:
a few dozen updates move a weight by a step or two, whether the layer's weights are large or small."""
RATE: Final = 1e-4
"""Of Adam, for all others: small against any rate that the model was trained with."""


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
    with (
        torch.enable_grad(),
        fence(calibration.subject.recipe.seed),
        rounding(made, ranges_of(made, names, calibration)),
    ):
        optimizer = torch.optim.Adam(_paces(made, names))
        updates = PASSES * math.ceil(calibration.count / calibration.batch)
        schedule = torch.optim.lr_scheduler.LinearLR(
            optimizer, 1.0, 1 / updates, updates
        )  # weights come to rest between two steps
        for epoch in range(PASSES):
            for batch in calibration.batches(epoch=epoch):
                optimizer.zero_grad()
                loss = task.loss_sum(made(batch.inputs), batch.targets) / max(1, int(task.count(batch.targets)))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
    return made.requires_grad_(False)


def _paces(model: nn.Module, names: Sequence[str]) -> list[dict[str, Any]]:
    """Groups of parameters, each with its rate."""
    groups, taken = [], set[int]()
    for name in names:
        layer = model.get_submodule(name)
        mine = [
            parameter for parameter in layer.parameters() if id(parameter) not in taken
        ]  # of tied layers, the first one's
        taken |= {id(parameter) for parameter in mine}
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        step = float(weight.detach().abs().flatten(1).amax(1).mean()) / 127
        groups.append({"params": mine, "lr": STRIDE * step})
    others = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    return [group for group in (*groups, {"params": others, "lr": RATE}) if group["params"]]
