"""qat: the model is trained a little more with fake quantization, then converted as int8-static.

Normalization layers keep their statistics, and the run's checkpoint is not changed.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any, Final, final

import torch
from torch import nn

from trueloop.engine.call_model import call_model
from trueloop.measure.randomness import fence
from trueloop.quantize.fake_quant import fake_quantization, fake_quantized, input_ranges
from trueloop.quantize.scheme import Calibration, Scheme
from trueloop.quantize.static_graph import LAYERS, REFUSES, static_graph

__all__ = ["Qat"]

EPOCHS: Final = 4  # Over the calibration samples
STRIDE: Final = 0.1
"""Learning rate of a quantized layer, in quantization steps of its weights, decayed to zero: a few dozen updates move a
weight by a step or two, however large the layer's weights are."""
RATE: Final = 1e-4  # Learning rate of all other parameters


@final
class Qat(Scheme):
    """Slower than int8-static, and closer to the float model where that loses too much."""

    name = "qat"
    layers = LAYERS
    calibrates = True
    rounds_activations = True
    refuses = REFUSES

    def quantize(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        return static_graph(_train(model, names, calibration), names, calibration)

    def quantize_layer(self, model: nn.Module, name: str, calibration: Calibration) -> nn.Module:
        return fake_quantized(model, input_ranges(model, [name], calibration))


def _train(model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
    """A copy, in evaluation mode: dropout and normalization are as they will be."""
    made = copy.deepcopy(model).eval().requires_grad_(True)
    task, seed = calibration.trained.task, calibration.trained.recipe.seed
    with torch.enable_grad(), fence(seed), fake_quantization(made, input_ranges(made, names, calibration)):
        optimizer = torch.optim.Adam(_groups(made, names))
        updates = EPOCHS * math.ceil(calibration.count / calibration.batch)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1 / updates, updates)
        for epoch in range(EPOCHS):
            for batch in calibration.batches(epoch=epoch):
                optimizer.zero_grad()
                found, count = task.loss_and_count(call_model(made, batch.inputs), batch)
                loss = found.total / max(1, int(count))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
    return made.requires_grad_(False)


def _groups(model: nn.Module, names: Sequence[str]) -> list[dict[str, Any]]:
    """Parameter groups with their learning rates."""
    groups, taken = [], set[int]()
    for name in names:
        layer = model.get_submodule(name)
        own = [parameter for parameter in layer.parameters() if id(parameter) not in taken]  # tied: only once
        taken |= {id(parameter) for parameter in own}
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        step = float(weight.detach().abs().flatten(1).amax(1).mean()) / 127
        groups.append({"params": own, "lr": STRIDE * step})
    others = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    return [group for group in (*groups, {"params": others, "lr": RATE}) if group["params"]]
