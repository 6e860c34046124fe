"""Is it the same training? What a trial has shown of itself, held against what the reference has. Pure: no torch.

docs/decisions/0012 says why by these numbers and no others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, Final

from trueloop.results.tune import Agreement

__all__ = ["Shown", "judged"]

BLOCK: Final = 4
"""Steps whose losses are averaged before they are compared: programs that play several steps at once tell only such
averages."""
FLOOR: Final = 0.1
"""Of the first loss: a loss below that is held against it, because the share of nearly nothing says nothing."""
LOOSE: Final = 3.0
"""Times the distance that the reference has from itself after its weights were moved by one rounding: two draws of a
maximum are easily a factor of two apart, and a trial rounds in every step, not once."""
ROUNDING: Final = 0.02
"""Of the loss, always allowed: bf16 has eight bits, 0.4 % in each product; over a deep model 1 to 2 % is what it does
to a loss."""
LOOSEST: Final = 0.5
"""Of the loss, never allowed, however restless the reference is: half of a loss is no rounding."""
COSINE: Final = 0.9
"""Between the gradients of a layer: 26 degrees. Another batch of the same size turns a gradient further than that."""
SLACK: Final = 0.05
"""Below the cosine that the reference has with itself at moved weights, where that is lower still."""
NOISE: Final = 0.5
"""A layer whose gradient turns so far at moved weights has none to speak of (a bias before a BatchNorm): it is left
out."""
LENGTH: Final = 1.25
"""Of the whole gradient, over that of the reference, either way: cosines do not see a wrong factor, and Adam hides it
from the losses."""
SIGMAS: Final = 2.0
"""Standard errors that a mean over seeds may be worse by: one in forty is, by chance."""
ROOM: Final = 0.01
"""Always allowed: a point of an accuracy, a hundredth of a loss. A few seeds do not know their own spread better than
that."""

Rows = Sequence[tuple[int, int, float]]


@dataclass(frozen=True, slots=True)
class Shown:
    """What `sameness.prove` gives."""

    steps: int
    curve: Rows
    moved: Sequence[Rows]
    gradients: Sequence[Mapping[str, Any]]
    metrics: Sequence[float]
    metric: str
    higher: bool
    ended: str = ""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Shown:
        return cls(**plain)


def judged(reference: Shown, trial: Shown) -> Agreement:
    """With the numbers, and a sentence for each that fails."""
    apart, allowed = _curves(reference, trial)
    cosine, needed, layer, length = _gradients(trial)
    room = _room(reference, trial)
    failures = [
        *_of_curve(trial, apart, allowed),
        *_of_gradients(trial, cosine, needed, layer, length),
        *_of_metrics(reference, trial, room),
    ]
    return Agreement(
        steps=trial.steps,
        loss_apart=apart,
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


def _curves(reference: Shown, trial: Shown) -> tuple[float, float]:
    """How far apart, and how far they may be."""
    if not trial.curve:
        return (math.inf if trial.ended else 0.0), ROUNDING
    yardstick = max((_apart(reference.curve, rows) for rows in reference.moved), default=0.0)
    return _apart(reference.curve, trial.curve), min(LOOSEST, max(ROUNDING, LOOSE * yardstick))


def _apart(reference: Rows, other: Rows) -> float:
    """The largest distance of two curves, as a share of the loss."""
    losses = {step: loss for before, after, loss in reference for step in range(before, after)}
    least = FLOOR * abs(losses[0]) if losses else 0.0
    found = 0.0
    for before, after, loss in _blocks(other):
        whole = mean(losses[step] for step in range(before, after))
        distance = abs(loss - whole) / max(abs(whole), least, 1e-12)
        found = max(found, distance if math.isfinite(distance) else math.inf)
    return found


def _blocks(rows: Rows) -> Iterator[tuple[int, int, float]]:
    """Neighbours taken together until they hold enough steps."""
    begun, total = 0, 0.0
    for before, after, loss in rows:
        total += loss * (after - before)
        if after - begun >= BLOCK:
            yield begun, after, total / (after - begun)
            begun, total = after, 0.0


def _of_curve(trial: Shown, apart: float, allowed: float) -> Iterator[str]:
    if trial.ended:
        yield f"its training ended by itself: {trial.ended}"
    elif apart > allowed:
        yield f"its loss lies {apart:.1%} from the reference's within {trial.steps} steps, and {allowed:.1%} is rounding"


# -- gradients --


def _gradients(trial: Shown) -> tuple[float, float, str, float]:
    """The layer that fails by most, or the lowest: its cosine, what it needs, its name; and the length that is furthest
    from 1."""
    worst = (1.0, COSINE, "")
    for moment in trial.gradients:
        for name, (cosine, itself) in moment["layers"].items():
            needed = min(COSINE, itself - SLACK)
            if itself >= NOISE and cosine - needed < worst[0] - worst[1]:
                worst = (cosine, needed, name)
    lengths = [float(moment["length"]) for moment in trial.gradients]
    return *worst, max(lengths, key=lambda length: abs(math.log(max(length, 1e-12))), default=1.0)


def _of_gradients(trial: Shown, cosine: float, needed: float, layer: str, length: float) -> Iterator[str]:
    if cosine < needed:
        yield f"the gradient of {layer} has a cosine of {cosine:.3f} with the reference's, and needs {needed:.2f}"
    if trial.gradients and not 1 / LENGTH <= length <= LENGTH:
        yield f"the gradient is {length:.3g} times as long as the reference's"


# -- the metric --


def _room(reference: Shown, trial: Shown) -> float:
    count = min(len(reference.metrics), len(trial.metrics))
    if not count:
        return 0.0
    spread = stdev(reference.metrics) if count > 1 else 0.0
    least = ROOM if trial.higher else ROOM * abs(mean(reference.metrics))
    return max(least, SIGMAS * spread * math.sqrt(2 / count))


def _of_metrics(reference: Shown, trial: Shown, room: float) -> Iterator[str]:
    if not reference.metrics or not trial.metrics:
        return
    if not all(map(math.isfinite, trial.metrics)):
        yield f"its {trial.metric} is no number after a short training"
        return
    ours, theirs = mean(trial.metrics), mean(reference.metrics)
    worse = theirs - ours if trial.higher else ours - theirs
    if worse > room:
        yield (
            f"its {trial.metric} is {ours:.4g} after a short training (mean of {len(trial.metrics)} seeds), the reference's {theirs:.4g}: "
            f"{worse:.2g} worse, and {room:.2g} is noise"
        )
