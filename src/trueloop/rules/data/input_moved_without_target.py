"""DAT132 input-moved-without-target: an input is flipped, turned or cropped, and its target is not.

What it sees
------------
Samples and their dense targets (masks, clean images, labels of each time step) are compared as small maps. In training
many targets fit their sample only after a flip, a turn or a shift; in evaluation nearly all fit as they are. Without
such an evaluation, a warning: about half of the targets fit as they are and the others just as well after a flip.

Where targets do not follow from the brightness (outlines, thin cracks), a regression on local features is fitted to
evaluated pairs and predicts the targets in training: many training targets fit their prediction in another orientation
only, and held-out evaluated ones in their own.

Why it hurts
------------
The random decision was drawn for the input and not applied to the target, or drawn again for it; or a part of the
stored masks is transposed or was not flipped with the stored pictures. The model then learns
from pairs that do not belong together: masks in the wrong corner, clean images of a different crop.

Evidence
--------
How many training samples fit as they are and how many only after a move, and how much of the target's variance the
sample explains before and after it; the same in evaluation.

Use instead
-----------
    if torch.rand(()) < 0.5:
        image, mask = image.flip(-1), mask.flip(-1)         # one decision, both tensors

When it is fine
---------------
Not reported: predictions that are flipped back before the loss, targets that do not follow from the brightness of the
sample at all, symmetric samples, and targets that are moved in evaluation too, where the task is such.
"""

from typing import Final

from trueloop.event import Alignment, TargetsAligned
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["InputMovedWithoutTarget"]

LEAST: Final = 24  # training samples that fit, as they are or moved
FEW: Final = 10  # the same where hardly any training sample fits as it is
NONE: Final = 0.1
LEAST_EVALUATED: Final = 12
MOVED: Final = 0.25  # of those that fit
MOVED_EVALUATED: Final = 0.06
LEAST_ALONE: Final = 48  # without evaluation
FIT_ALONE: Final = 0.6
GAIN: Final = 0.25  # of the target's variance that a move explains in addition, in the median


class InputMovedWithoutTarget(Rule, code="DAT132", severity=Severity.ERROR):
    not_applicable = "no model was trained on targets with the dimensions of its inputs"
    explained_by = ("targets-turned-against-inputs",)

    def on_targets_aligned(self, event: TargetsAligned) -> Findings:
        found = list(self._check(event, event.training, event.evaluation, ""))
        if not found and event.predicted is not None and event.predicted_evaluation is not None:
            by = " by a regression on evaluated pairs"
            found = list(self._check(event, event.predicted, event.predicted_evaluation, by))
        yield from found

    def _check(self, event: TargetsAligned, trained: Alignment, evaluated: Alignment | None, by: str) -> Findings:
        fitting = trained.aligned + trained.moved
        known = evaluated is not None and evaluated.aligned + evaluated.moved >= LEAST_EVALUATED
        none_fits = known and trained.rows >= LEAST_ALONE and trained.aligned <= NONE * trained.rows
        if fitting < (FEW if none_fits else LEAST) or trained.moved < MOVED * fitting:
            return
        if trained.moved_fit - trained.unmoved_fit < GAIN:
            return
        if not (_fits(evaluated) if known else _in_two_halves(trained)):
            return
        how = "a flip or a turn" if trained.flipped > 0.5 * trained.moved else "a shift"
        beside = f" In evaluation {_percent(evaluated)} do." if known and evaluated is not None else ""
        why = (
            "The input was moved and not its target, by an augmentation or in the stored data."
            if by
            else ("The augmentation moves the input and not its target, or draws again for it.")
        )
        yield self.finding(
            event,
            f"Of {fitting} training samples of `{event.name}`, {trained.moved} fit their targets only after {how}: "
            f"they explain {trained.moved_fit:.0%} of the target's variance then{by}, {trained.unmoved_fit:.0%} "
            f"before.{beside} {why}",
            fix="Draw the decision once and apply it to both: `image, mask = image.flip(-1), mask.flip(-1)`; crop both "
            "with the same offsets.",
            evidence={
                "fit": trained.aligned,
                "fit_after_a_move": trained.moved,
                "explained_as_they_are": round(trained.unmoved_fit, 3),
                "explained_after_a_move": round(trained.moved_fit, 3),
            },
            severity=Severity.ERROR if known else Severity.WARNING,
        )


def _fits(evaluated: Alignment | None) -> bool:
    return evaluated is not None and evaluated.moved <= MOVED_EVALUATED * (evaluated.aligned + evaluated.moved)


def _in_two_halves(trained: Alignment) -> bool:
    """Some fit as they are, and the others as well after a flip."""
    alike = trained.moved_fit >= 0.85 * trained.fit >= 0.85 * FIT_ALONE
    fitting = trained.aligned + trained.moved
    return (
        alike
        and fitting >= LEAST_ALONE
        and trained.aligned >= 0.15 * fitting
        and trained.flipped >= 0.8 * trained.moved
    )


def _percent(evaluated: Alignment) -> str:
    return f"{evaluated.moved / (evaluated.aligned + evaluated.moved):.0%}"
