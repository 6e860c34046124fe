"""GRD106 vanishing-gradients: gradients shrink from layer to layer towards the input.

What it sees
------------
On several measured steps, the gradient per element of the weights falls by a factor of 100,000 or more from the last
layer to the first. There are at least five layers, and the fall is spread over them, not concentrated at one place.

Why it hurts
------------
The first layers hardly change from their initial values: the network trains its last layers on random features, and
more layers make it worse.

Evidence
--------
The gradient per element (RMS) of the first and the last layer, their ratio, and the number of layers.

Use instead
-----------
    nn.Linear(n, n), nn.ReLU()          # sigmoid and tanh shrink the gradient at every layer
    x = x + block(x)                    # residual connections or normalization layers let it pass

When it is fine
---------------
Not reported: weights without a gradient or with an exactly zero one (frozen parts, zero-initialized branches, gates); a
fall at a single place (a scaled branch). With Adam and similar optimizers the gradient size cancels out until it is
below eps, so only smaller gradients are reported.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from trueloop.event import GradientsMeasured, LayerGradient, ModelSeen, Place, Stepped
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["VanishingGradients"]

FALL: Final = 1e5
"""Last to first layer. Deep networks that train well stay within a few hundred; ten sigmoid layers exceed a million."""
LAYERS: Final = 5  # With fewer layers the first one still gets a usable gradient
RISING: Final = 0.7  # Share of adjacent layer pairs in which the layer closer to the output has the larger gradient
AT_ONE_PLACE: Final = 0.5
"""Largest share of the fall, in powers of ten, that one pair of layers may have: a gate falls at one place."""
ENOUGH: Final = 4  # Consecutive measurements: the first three steps and a later one
ADAMS_EPS: Final = 1e-8  # Below this, optimizers that normalize by the gradient size no longer do so
SMALLEST: Final = 1e-18  # Below such a gradient, float32 underflows to zero: the squares in a norm leave its range


class VanishingGradients(Rule, code="GRD106", severity=Severity.WARNING):
    not_applicable = "no gradients were measured"

    def __init__(self) -> None:
        self._times: dict[tuple[int, str], int] = {}
        self._models: dict[str, Place | None] = {}
        self._scale_free: set[int] = set()
        self._checked = False

    def why_not_checked(self) -> str:
        return "" if self._checked else f"no model with {LAYERS} layers was trained long enough"

    def on_model_seen(self, event: ModelSeen) -> None:
        self._models.setdefault(event.name, event.defined or event.place)

    def on_stepped(self, event: Stepped) -> None:
        if event.scale_free:
            self._scale_free.add(event.optimizer)

    def on_gradients_measured(self, event: GradientsMeasured) -> Findings:
        layers = sorted(event.layers, key=lambda layer: layer.depth)
        key = (event.optimizer, event.model)
        self._checked = self._checked or (len(layers) >= LAYERS and event.index > ENOUGH)
        units = [layer.norm / math.sqrt(layer.size) for layer in layers]
        faint = event.optimizer not in self._scale_free or (bool(units) and units[0] < ADAMS_EPS)
        vanishes = faint and _vanishes(units)
        times = self._times[key] = self._times.get(key, 0) + 1 if vanishes else 0
        if times == ENOUGH:
            yield self._report(event, layers, units, times)

    def _report(
        self, event: GradientsMeasured, layers: Sequence[LayerGradient], units: list[float], times: int
    ) -> Finding:
        first, last = layers[0], layers[-1]
        ratio = units[-1] / units[0] if units[0] else math.inf
        return self.finding(
            event,
            f"The gradients of {event.model} vanish towards the input: {units[-1]:.0e} per element in {last.name}, "
            f"{units[0]:.0e} in {first.name}, {len(layers) - 1} layers earlier.",
            fix="Use ReLU or GELU instead of sigmoid or tanh, normalization layers, or residual connections.",
            evidence={
                "first": first.name,
                "last": last.name,
                "first_gradient": units[0],
                "last_gradient": units[-1],
                "ratio": ratio if math.isfinite(ratio) else None,
                "layers": len(layers),
                "measurements": times,
            },
            place=self._models.get(event.model),
        )


def _vanishes(units: list[float]) -> bool:
    """Takes the gradients per element, from the first layer to the last."""
    zeros = next((i for i, unit in enumerate(units) if unit > 0), len(units))
    left = units[zeros:]
    if len(units) < LAYERS or len(left) < 2 or not all(math.isfinite(unit) and unit > 0 for unit in left):
        return False
    if zeros and left[0] > SMALLEST:
        return False  # exactly zero, but not by underflow
    powers = [math.log10(unit) for unit in left]
    rises = [after - before for before, after in pairwise(powers)]
    fall = powers[-1] - powers[0]
    gradual = sum(rise > 0 for rise in rises) >= RISING * len(rises) and max(rises) <= AT_ONE_PLACE * fall
    return fall >= math.log10(FALL) and gradual
