"""Two recordings of a script's first steps, with and without a GPU: whether they can be compared, and what differs.

How much may differ is measured: a second run without a GPU, whose weights are changed by a few roundings, shows how far
this script carries such a change. Healthy devices differ by less than `TIMES` that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from trueloop.claims.batch_result import GRADIENT_ROUNDING, ROUNDING, SMALL, relative_difference
from trueloop.claims.device_steps import DeviceStep, DeviceSteps, LayerCall

__all__ = ["PERTURBATION", "Difference", "Limits", "first_difference_of_devices", "limits_of", "why_incomparable"]

PERTURBATION: Final = 2.0**-20  # of each weight: eight roundings of float32
TIMES: Final = 32  # times the effect of that: operations round too, not only weights
TOO_MUCH: Final = 0.1  # share of a loss or gradient; a step that carries roundings so far says nothing
MOST_ROOTS: Final = 64  # calls of the model before a step: a rollout, in which a rounding may change a decision


@dataclass(frozen=True, slots=True)
class Limits:
    """What may differ, as a share of the value, in any step."""

    loss: float
    gradients: tuple[float, ...]  # by parameter

    @property
    def too_wide(self) -> bool:
        return self.loss > TOO_MUCH or min(self.gradients, default=0.0) > TOO_MUCH


@dataclass(frozen=True, slots=True)
class Difference:
    step: int  # the first is 1
    losses: tuple[float, float]
    loss: float  # as a share
    gradients: float
    parameter: int  # with the largest difference of its gradient, over its limit
    layer: LayerCall | None  # the first whose output differs


def why_incomparable(one: DeviceSteps, other: DeviceSteps) -> str:
    """Of two runs, with which settings the script runs on each device may differ on purpose; empty: comparable."""
    if other.problem:
        return other.problem
    if not other.steps:
        return f"the script took no step there ({other.error or 'it ended before one'})"
    for number, (a, b) in enumerate(zip(one.steps, other.steps, strict=False), 1):
        at = f"in step {number}"
        if a.parameters != b.parameters:
            return f"{at} it trains a different model, or in a different precision"
        if a.batches != b.batches:
            return f"{at} its loaders yield different batches"
        if len(a.losses) != len(b.losses):
            return f"{at} it calls `backward` {len(b.losses)} times instead of {len(a.losses)}"
        if [call[:3] for call in a.calls] != [call[:3] for call in b.calls]:
            return f"{at} it calls different layers, or with inputs of different shapes"
        if a.weights != b.weights and number == 1:
            return "it begins with different weights"
        if a.roots > MOST_ROOTS:
            return f"a step calls the model {a.roots} times; a rounding may change what is decided between the calls"
    return ""


def limits_of(reference: DeviceSteps, perturbed: DeviceSteps) -> Limits:
    pairs = list(zip(reference.steps, perturbed.steps, strict=False))
    # One step only: nothing was perturbed, so nothing was measured.
    times = 10.0 if len(pairs) < 2 else 1.0
    losses = [_loss_difference(*pair) for pair in pairs]
    gradients = zip(*(_gradient_differences(*pair) for pair in pairs), strict=False)
    wide = tuple(max(times * GRADIENT_ROUNDING, TIMES * max(each)) for each in gradients)
    return Limits(max(times * ROUNDING, TIMES * max(losses, default=0.0)), wide)


def first_difference_of_devices(reference: DeviceSteps, other: DeviceSteps, limits: Limits) -> Difference | None:
    for number, (a, b) in enumerate(zip(reference.steps, other.steps, strict=False), 1):
        loss, gradients = _loss_difference(a, b), _gradient_differences(a, b)
        over = [found / limit for found, limit in zip(gradients, limits.gradients, strict=False)]
        worst = max(range(len(over)), key=over.__getitem__, default=-1)
        if loss > limits.loss or (over and not over[worst] <= 1):
            layer = next((y for x, y in zip(a.calls, b.calls, strict=False) if _differs(x, y, limits)), None)
            pair = (math.fsum(a.losses), math.fsum(b.losses))
            return Difference(number, pair, loss, gradients[worst] if gradients else 0.0, worst, layer)
    return None


def _loss_difference(one: DeviceStep, other: DeviceStep) -> float:
    pairs = zip(one.losses, other.losses, strict=False)
    return max((relative_difference(_scalar(a), _scalar(b)) for a, b in pairs), default=0.0)


def _scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _gradient_differences(one: DeviceStep, other: DeviceStep) -> Sequence[float]:
    """By parameter; gradients that are small beside the largest one are compared on its scale."""
    largest = max((float(each.abs().max()) for each in one.gradients if each is not None and each.numel()), default=0.0)
    differences = []
    for a, b in zip(one.gradients, other.gradients, strict=False):
        if a is None or b is None:
            differences.append(0.0 if a is b else math.inf)
        else:
            differences.append(relative_difference(a, b, SMALL * largest))
    return differences


def _differs(one: LayerCall, other: LayerCall, limits: Limits) -> bool:
    return not relative_difference(one.sample, other.sample) <= max(ROUNDING, limits.loss)
