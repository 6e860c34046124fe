"""LOS103 logits-passed-as-probabilities: a loss that wants (log-)probabilities is given something else.

What it sees
------------
`nll_loss` given raw scores (rows that are no log-probabilities, with values above zero) or probabilities; `kl_div`
given probabilities, or scores above zero, where log-probabilities belong; `binary_cross_entropy` given the output of a
linear layer or convolution that was clamped into [0, 1].

Why it hurts
------------
None of them checks. `nll_loss` of raw scores has no lowest value: it falls for ever by making scores large, and says
nothing about probabilities. `kl_div` of probabilities is not a divergence. A clamp gives no gradient to any sample
outside the interval: exactly those that are most wrong.

Evidence
--------
The loss function, the shape and range of its input, what its rows are, and the operation behind it.

Use instead
-----------
    F.nll_loss(F.log_softmax(scores, dim=1), y)           # or F.cross_entropy(scores, y)
    F.kl_div(F.log_softmax(scores, dim=1), teacher_probabilities, reduction="batchmean")
    F.binary_cross_entropy_with_logits(scores, y)

When it is fine
---------------
Log-likelihoods that are not normalised but never positive (mixtures, masked classes) are left alone. So is a clamp on
probabilities, which guards against log(0).
"""

from __future__ import annotations

from typing import Final, final

from trueloop.event import LossComputed, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["LogitsPassedAsProbabilities"]

CALLS: Final = 2
"""Calls that must show it: a first batch may be all zeros."""
CLEARLY_POSITIVE: Final = 0.05
"""A log-probability is at most zero; rounding in half precision stays far below this."""

_LINEAR: Final = (
    "AddmmBackward",
    "MmBackward",
    "BmmBackward",
    "BaddbmmBackward",
    "ConvolutionBackward",
    "LinearBackward",
    "MvBackward",
)
_CLAMPS: Final = ("ClampBackward", "HardtanhBackward")
_FIX: Final = {
    "nll_loss": "Use cross_entropy on the raw scores, or apply log_softmax over the class dimension before nll_loss.",
    "kl_div": "Give kl_div log-probabilities as its first argument: log_softmax over the class dimension.",
    "binary_cross_entropy": "Use binary_cross_entropy_with_logits on the raw scores, without the clamp.",
}


@final
class LogitsPassedAsProbabilities(Rule):
    code = "LOS103"
    name = "logits-passed-as-probabilities"
    severity = Severity.ERROR
    not_applicable = "no loss that wants probabilities was called"

    def __init__(self) -> None:
        self._calls: dict[tuple[str, Place | None], int] = {}
        self._clamps: dict[Place | None, Place] = {}
        """The line of the clamp by the line of the loss; seen on the first calls only."""

    def on_loss_computed(self, event: LossComputed) -> Findings:
        wrong = _what_is_wrong(event)
        if not wrong:
            return
        key = (event.function, event.place)
        if event.preceding_place is not None and event.function == "binary_cross_entropy":
            self._clamps[event.place] = event.preceding_place
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] < CALLS:
            return
        yield self.finding(
            event,
            f"{event.function} is given {wrong}.",
            fix=_FIX[event.function],
            evidence={
                "function": event.function,
                "input_shape": list(event.input_shape),
                "input_range": event.input_range,
                "rows": event.rows,
                "behind": list(event.preceding),
                "calls": self._calls[key],
            },
            place=self._clamps.get(event.place),
        )


def _what_is_wrong(event: LossComputed) -> str:
    """'' when nothing is."""
    if event.input_range is None:
        return ""
    low, high = event.input_range
    if event.function in ("nll_loss", "kl_div"):
        if event.rows == "probabilities":
            return f"probabilities (rows of {list(event.input_shape)} sum to 1) where log-probabilities belong"
        scores = event.rows == "scores" and high > CLEARLY_POSITIVE
        if scores and (event.function == "nll_loss" or event.target_rows_sum_to_one):
            return f"raw scores from {low:.3g} to {high:.3g} where log-probabilities, which are never above 0, belong"
    if event.function == "binary_cross_entropy" and _clamped_scores(event.preceding):
        return f"raw scores that were clamped into [{low:.3g}, {high:.3g}]: those outside get no gradient"
    return ""


def _clamped_scores(behind: tuple[str, ...]) -> bool:
    """A clamp, and straight behind it a linear layer or a convolution."""
    return any(name.startswith(_CLAMPS) for name in behind) and behind[-1].startswith(_LINEAR)
