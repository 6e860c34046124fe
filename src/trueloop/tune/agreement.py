"""Is it the same training? Compares the evidence of a trial with that of the reference. Pure: no torch.

docs/decisions/0012 explains these thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, Final

from trueloop.results.tune import Agreement

__all__ = ["Evidence", "agreement_of"]

BLOCK: Final = 4  # Steps whose losses are averaged: programs that replay several steps only report averages
FLOOR: Final = 0.1  # Share of the first loss: smaller losses are compared with it
LOOSE: Final = 3.0
"""Times the reference's own distance after its weights were perturbed by one rounding: two draws easily differ by a
factor of two, and a trial rounds in every step."""
ROUNDING: Final = 0.02  # Share of the loss, always allowed: bf16 in a deep model changes a loss by 1 to 2 %
LOOSEST: Final = 0.5  # Share of the loss, never allowed
COSINE: Final = 0.9  # Between the gradients of a layer. Another batch of the same size changes the direction more.
SLACK: Final = 0.05  # Below the reference's cosine with itself at perturbed weights
NOISE: Final = 0.5
"""A layer below this cosine at perturbed weights has no meaningful gradient (a bias before a BatchNorm) and is
skipped."""
LENGTH: Final = 1.25  # Ratio of gradient norms: cosines do not see a wrong factor, and Adam hides it from the losses
SIGMAS: Final = 2.0  # Standard errors that a mean over seeds may be worse by
ROOM: Final = 0.01  # Always allowed: one point of accuracy, 0.01 of a loss. A few seeds do not know their spread better

Rows = Sequence[tuple[int, int, float]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of `trial_evidence.collect_evidence`."""

    steps: int
    curve: Rows
    moved: Sequence[Rows]
    gradients: Sequence[Mapping[str, Any]]
    metrics: Sequence[float]
    metric: str
    higher: bool
    ended: str = ""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Evidence:
        return cls(**plain)


def agreement_of(reference: Evidence, trial: Evidence) -> Agreement:
    """The numbers, and a sentence for each difference."""
    distance, allowed = _curves(reference, trial)
    cosine, needed, layer, length = _gradients(trial)
    room = _room(reference, trial)
    failures = [
        *_curve_failures(trial, distance, allowed),
        *_gradient_failures(trial, cosine, needed, layer, length),
        *_metric_failures(reference, trial, room),
    ]
    return Agreement(
        steps=trial.steps,
        loss_apart=distance,
        loss_allowed=allowed,
        cosine=cosine,
        cosine_allowed=needed,
        layer=layer,
        length=length,
        metric=trial.metric,
        reference=tuple(reference.metrics),
        measured=tuple(trial.metrics),
        metric_allowed=room,
        failures=tuple(failures),
    )


# -- the loss curve --


def _curves(reference: Evidence, trial: Evidence) -> tuple[float, float]:
    """The distance, and the allowed distance."""
    if not trial.curve:
        return (math.inf if trial.ended else 0.0), ROUNDING
    own = max((_distance(reference.curve, rows) for rows in reference.moved), default=0.0)
    return _distance(reference.curve, trial.curve), min(LOOSEST, max(ROUNDING, LOOSE * own))


def _distance(reference: Rows, other: Rows) -> float:
    """The largest relative difference of two loss curves."""
    losses = {step: loss for before, after, loss in reference for step in range(before, after)}
    least = FLOOR * abs(losses[0]) if losses else 0.0
    found = 0.0
    for before, after, loss in _blocks(other):
        expected = mean(losses[step] for step in range(before, after))
        distance = abs(loss - expected) / max(abs(expected), least, 1e-12)
        found = max(found, distance if math.isfinite(distance) else math.inf)
    return found


def _blocks(rows: Rows) -> Iterator[tuple[int, int, float]]:
    """Consecutive rows merged until they hold enough steps."""
    begun, total = 0, 0.0
    for before, after, loss in rows:
        total += loss * (after - before)
        if after - begun >= BLOCK:
            yield begun, after, total / (after - begun)
            begun, total = after, 0.0


def _curve_failures(trial: Evidence, distance: float, allowed: float) -> Iterator[str]:
    if trial.ended:
        yield f"its training ended early: {trial.ended}"
    elif distance > allowed:
        within = f"within {trial.steps} steps; {allowed:.1%} is rounding"
        yield f"its loss differs by {distance:.1%} from the reference {within}"


# -- gradients --


def _gradients(trial: Evidence) -> tuple[float, float, str, float]:
    """The worst layer: its cosine, the required cosine, its name; and the ratio of gradient norms furthest from 1."""
    worst = (1.0, COSINE, "")
    for moment in trial.gradients:
        for name, (cosine, itself) in moment["layers"].items():
            needed = min(COSINE, itself - SLACK)
            if itself >= NOISE and cosine - needed < worst[0] - worst[1]:
                worst = (cosine, needed, name)
    lengths = [float(moment["length"]) for moment in trial.gradients]
    return *worst, max(lengths, key=lambda length: abs(math.log(max(length, 1e-12))), default=1.0)


def _gradient_failures(trial: Evidence, cosine: float, needed: float, layer: str, length: float) -> Iterator[str]:
    if cosine < needed:
        yield f"the gradient of {layer} has a cosine of {cosine:.3f} with the reference's; {needed:.2f} is required"
    if trial.gradients and not 1 / LENGTH <= length <= LENGTH:
        yield f"the gradient norm is {length:.3g} times the reference's"


# -- the metric --


def _room(reference: Evidence, trial: Evidence) -> float:
    count = min(len(reference.metrics), len(trial.metrics))
    if not count:
        return 0.0
    spread = stdev(reference.metrics) if count > 1 else 0.0
    least = ROOM if trial.higher else ROOM * abs(mean(reference.metrics))
    return max(least, SIGMAS * spread * math.sqrt(2 / count))


def _metric_failures(reference: Evidence, trial: Evidence, room: float) -> Iterator[str]:
    if not reference.metrics or not trial.metrics:
        return
    if not all(map(math.isfinite, trial.metrics)):
        yield f"its {trial.metric} is NaN or Inf after a short training"
        return
    ours, theirs = mean(trial.metrics), mean(reference.metrics)
    worse = theirs - ours if trial.higher else ours - theirs
    if worse > room:
        why = f"its {trial.metric} is {ours:.4g} after a short training (mean of {len(trial.metrics)} seeds),"
        yield f"{why} the reference's {theirs:.4g}: {worse:.2g} worse; {room:.2g} is noise"
