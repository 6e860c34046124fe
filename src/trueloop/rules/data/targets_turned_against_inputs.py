"""DAT160 targets-turned-against-inputs: masks, heat maps or series are transposed or flipped against their inputs.

What it sees
------------
A small probe predicts the dense targets of held-out samples from the input at the same place (value, local mean,
gradient). As the pairs enter the loss it is at chance; with all targets transposed, flipped or turned in the same way
it fits far better. And in the other phase the pairs fit as they are; or, in training, the outputs of the model explain
next to nothing of their targets.

Why it hurts
------------
Each pixel is trained on the target of a different place. Every shape is right (of square maps), the loss falls to that
of a constant map, and the model predicts the mean of all targets.

Evidence
--------
The orientation that fits, the correlation of the probe with the targets in it and as used, and how many standard
deviations both are from pairs of different samples; the same for the other phase.

Use instead
-----------
    mask[y0:y1, x0:x1] = 1             # an array is [row, column]: y first
    heat[n, y, x] = 1.0
    image = numpy.asarray(picture)     # [height, width]; `picture.size` is (width, height)

When it is fine
---------------
Not reported: a model that learns the turned targets (the task is to turn its input), predictions that are turned back
before the loss, symmetric content, targets that do not follow from the input at the same place, and flips of some
samples only (`input-moved-without-target` reports those).
"""

from typing import Final

from trueloop.event import MapOrder, RunEnded, TargetsAligned
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["TargetsTurnedAgainstInputs"]

FITS: Final = 8.0  # standard deviations from chance
CORRELATES: Final = 0.35  # of a probe with the targets of held-out samples
CHANCE: Final = 0.3  # of what fits: content near the middle lies on its mirror image in part
LEARNED: Final = 0.15  # of a target's variance: the outputs of a model follow it
LEAST_STEPS: Final = 20  # before outputs say that the model does not learn
PART: Final = 0.1  # of the run, at least


class TargetsTurnedAgainstInputs(Rule, code="DAT160", severity=Severity.ERROR):
    not_applicable = "no model was trained on targets with the dimensions of its inputs"

    def __init__(self) -> None:
        self._aligned: list[TargetsAligned] = []

    def on_targets_aligned(self, event: TargetsAligned) -> None:
        self._aligned.append(event)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for event in self._aligned:
            trained, evaluated = event.training_order, event.evaluation_order
            if trained is None:
                continue
            if _is_turned(trained) and evaluated is not None and _fits(evaluated):
                yield self._report(event, trained, "training", _beside("evaluation", evaluated))
            elif evaluated is not None and evaluated.square and _is_turned(evaluated) and _fits(trained):
                yield self._report(event, evaluated, "evaluation", _beside("training", trained))
            elif _is_turned(trained) and trained.square and _unlearned(event, end.step):
                beside = f" After {event.answered_at} steps the outputs explain {event.answered:.0%} of their targets."
                yield self._report(event, trained, "training", beside)

    def _report(self, event: TargetsAligned, turned: MapOrder, phase: str, beside: str) -> Finding:
        both = " and evaluation" if _both(event) else ""
        return self.finding(
            event,
            f"The targets of `{event.name}` in {phase}{both} lie {turned.order} on their inputs: a probe of the input "
            f"at the same place correlates {turned.used:.2f} with the targets as they are, and {turned.fits:.2f} with "
            f"the inputs {turned.order} ({turned.fits_deviations:.0f} standard deviations from chance).{beside}",
            fix="Bring both into one orientation where they are read or drawn: arrays are [row, column], so y comes "
            "before x; `picture.size` is (width, height).",
            evidence={
                "orientation": turned.order, "rows": turned.rows, "as_used": round(turned.used, 3),
                "turned": round(turned.fits, 3), "deviations_as_used": round(turned.used_deviations, 1),
                "deviations_turned": round(turned.fits_deviations, 1),
            },
            severity=Severity.ERROR if beside.startswith(" In evaluation") else Severity.WARNING,
        )  # fmt: skip


def _is_turned(order: MapOrder) -> bool:
    far = order.fits_deviations >= FITS and order.fits >= CORRELATES
    chance = order.used <= CHANCE * order.fits and order.used_deviations <= CHANCE * order.fits_deviations
    return far and chance


def _fits(order: MapOrder) -> bool:
    far = order.used_deviations >= FITS and order.used >= CORRELATES
    return far and order.fits <= 0.5 * order.used


def _both(event: TargetsAligned) -> bool:
    trained, evaluated = event.training_order, event.evaluation_order
    if trained is None or evaluated is None:
        return False
    return _is_turned(trained) and _is_turned(evaluated) and trained.order == evaluated.order


def _unlearned(event: TargetsAligned, steps: int) -> bool:
    """The model does not follow the turned targets, and nothing says that they fit where it is evaluated."""
    known = event.answered is not None and event.answered_at >= max(LEAST_STEPS, PART * steps)
    alike = event.evaluation_order is None or _both(event)
    return known and alike and event.answered is not None and event.answered <= LEARNED


def _beside(phase: str, order: MapOrder) -> str:
    return f" In {phase} they fit as they are ({order.used:.2f})."
