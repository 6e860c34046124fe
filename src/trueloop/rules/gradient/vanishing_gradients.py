"""GRD106 vanishing-gradients: layer by layer towards the input the gradients shrink to nothing.

What it sees
------------
On several measured steps the gradient of a weight, per number in it, falls by a factor of a hundred thousand and more
from the last layer to the first, over at least five layers, step by step rather than at one place.

Why it hurts
------------
The first layers receive so little that they stay as they were initialised: the network trains its last layers on random
features, and deeper makes it worse.

Evidence
--------
The gradient per number of the first and of the last layer, their ratio, and how many layers lie between.

Use instead
-----------
    nn.Linear(n, n), nn.ReLU()          # sigmoid and tanh shrink the gradient at every layer
    x = x + block(x)                    # a residual path, or a normalisation layer, carries it past them

When it is fine
---------------
Weights without a gradient, or with one that is exactly zero (frozen parts, zero-initialised branches, gates), are left
alone, and so is a fall at a single place (a scaled branch). With Adam and its kin the length cancels out until it is
below their eps; only then it is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, final

from trueloop.event import GradientsMeasured, LayerGradient, ModelSeen, Place, Stepped
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["VanishingGradients"]

FALL: Final = 1e5
"""From last to first layer. Deep networks that train well stay within a few hundred; ten sigmoid layers fall by a
million and more."""
LAYERS: Final = 5
"""With fewer layers the first one can still be reached."""
RISING: Final = 0.7
"""Share of neighbouring layers of which the one nearer to the output has the larger gradient."""
AT_ONE_PLACE: Final = 0.5
"""The largest share of the fall, counted in powers of ten, that one pair of neighbours may have: a gate falls at one
place."""
ENOUGH: Final = 4
"""Measurements in a row: the first three steps, and one some time later."""
ADAMS_EPS: Final = 1e-8
"""Below this the optimizers that divide by the gradient's length do so no more."""
SMALLEST: Final = 1e-18
"""Behind a gradient as small as this, zeros are what single precision has left: the squares, of which a norm is made,
leave its range."""


@final
class VanishingGradients(Rule):
    code = "GRD106"
    name = "vanishing-gradients"
    severity = Severity.WARNING
    not_applicable = "no gradients were measured"

    def __init__(self) -> None:
        self._times: dict[tuple[int, str], int] = {}
        self._models: dict[str, Place | None] = {}
        self._scale_free: set[int] = set()
        self._judged = False

    def why_not_checked(self) -> str:
        return "" if self._judged else f"no model with {LAYERS} layers was trained long enough"

    def on_model_seen(self, event: ModelSeen) -> None:
        self._models.setdefault(event.name, event.defined or event.place)

    def on_stepped(self, event: Stepped) -> None:
        if event.scale_free:
            self._scale_free.add(event.optimizer)

    def on_gradients_measured(self, event: GradientsMeasured) -> Findings:
        layers = sorted(event.layers, key=lambda layer: layer.depth)
        key = (event.optimizer, event.model)
        self._judged = self._judged or (len(layers) >= LAYERS and event.index > ENOUGH)
        units = [layer.norm / math.sqrt(layer.size) for layer in layers]
        faint = event.optimizer not in self._scale_free or (bool(units) and units[0] < ADAMS_EPS)
        vanishes = faint and _vanishes(units)
        times = self._times[key] = self._times.get(key, 0) + 1 if vanishes else 0
        if times == ENOUGH:
            yield self._speak(event, layers, units, times)

    def _speak(
        self, event: GradientsMeasured, layers: Sequence[LayerGradient], units: list[float], times: int
    ) -> Finding:
        first, last = layers[0], layers[-1]
        ratio = units[-1] / units[0] if units[0] else math.inf
        return self.finding(
            event,
            f"In {event.model} the gradient shrinks from layer to layer: per number, {first.name} receives {units[0]:.0e} "
            f"where {last.name}, {len(layers) - 1} weights further on, receives {units[-1]:.0e}.",
            fix="Use an activation that does not shrink gradients (ReLU, GELU), normalisation layers, or residual connections.",
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
    """Gradients per number, from the first layer to the last."""
    zeros = next((i for i, unit in enumerate(units) if unit > 0), len(units))
    left = units[zeros:]
    if len(units) < LAYERS or len(left) < 2 or not all(math.isfinite(unit) and unit > 0 for unit in left):
        return False
    if zeros and left[0] > SMALLEST:
        return False  # exactly zero for another reason than smallness
    powers = [math.log10(unit) for unit in left]
    rises = [after - before for before, after in pairwise(powers)]
    fall = powers[-1] - powers[0]
    gradual = sum(rise > 0 for rise in rises) >= RISING * len(rises) and max(rises) <= AT_ONE_PLACE * fall
    return fall >= math.log10(FALL) and gradual
