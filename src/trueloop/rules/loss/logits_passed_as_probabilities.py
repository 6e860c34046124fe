"""LOS103 logits-passed-as-probabilities: a loss that needs (log-)probabilities gets something else.

What it sees
------------
`nll_loss` with logits (rows with values above zero that are not log-probabilities) or with probabilities; `kl_div` with
probabilities or positive logits instead of log-probabilities; `binary_cross_entropy` with the output of a linear layer
or convolution clamped to [0, 1].

Why it hurts
------------
None of these functions checks its input. `nll_loss` of logits has no minimum: it falls forever as logits grow, and says
nothing about probabilities. `kl_div` of probabilities is not a divergence. A clamp gives no gradient to samples outside
the interval, which are exactly the most wrong ones.

Evidence
--------
The loss function, the shape and range of its input, what its rows are, and the operations that produced it.

Use instead
-----------
    F.nll_loss(F.log_softmax(logits, dim=1), y)           # or F.cross_entropy(logits, y)
    F.kl_div(F.log_softmax(logits, dim=1), teacher_probabilities, reduction="batchmean")
    F.binary_cross_entropy_with_logits(logits, y)

When it is fine
---------------
Not reported: unnormalized log-likelihoods that are never positive (mixtures, masked classes), and a clamp on
probabilities that guards against log(0).
"""

from typing import Final

from trueloop.event import LossComputed, Place
from trueloop.event.operation_names import CLAMP_NODES
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["LogitsPassedAsProbabilities"]

CALLS: Final = 2  # Calls that must show it: a first batch may be all zeros
CLEARLY_POSITIVE: Final = 0.05  # A log-probability is at most zero; rounding in half precision stays far below this

_LINEAR: Final = tuple(f"{name}Backward" for name in ["Addmm", "Mm", "Bmm", "Baddbmm", "Convolution", "Linear", "Mv"])
_FIX: Final = {
    "nll_loss": "Use `cross_entropy(logits, y)`, or apply `log_softmax(logits, dim=1)` before `nll_loss`.",
    "kl_div": "Pass log-probabilities as the first argument: `kl_div(log_softmax(logits, dim=1), ...)`.",
    "binary_cross_entropy": "Remove the clamp and use `binary_cross_entropy_with_logits(logits, y)`.",
}


class LogitsPassedAsProbabilities(Rule, code="LOS103", severity=Severity.ERROR):
    not_applicable = "no loss that needs probabilities was called"

    def __init__(self) -> None:
        self._clamps: dict[Place | None, Place] = {}
        """The line of the clamp by the line of the loss; visible on the first calls only."""

    def on_loss_computed(self, event: LossComputed) -> Findings:
        wrong = _what_is_wrong(event)
        if not wrong:
            return
        if event.preceding_place is not None and event.function == "binary_cross_entropy":
            self._clamps[event.place] = event.preceding_place
        calls = self.count(event.function, event.place)
        if calls < CALLS:
            return
        yield self.finding(
            event,
            f"`{event.function}` gets {wrong}.",
            fix=_FIX[event.function],
            evidence=facts(event, "function input_shape input_range rows produced_by=preceding", calls=calls),
            place=self._clamps.get(event.place),
        )


def _what_is_wrong(event: LossComputed) -> str:
    """Empty if the input is correct."""
    if event.input_range is None:
        return ""
    low, high = event.input_range
    if event.function in ("nll_loss", "kl_div"):
        if event.rows == "probabilities":
            return f"probabilities (rows of {list(event.input_shape)} sum to 1) instead of log-probabilities"
        scores = event.rows == "scores" and high > CLEARLY_POSITIVE
        if scores and (event.function == "nll_loss" or event.target_rows_sum_to_one):
            return f"logits from {low:.3g} to {high:.3g} instead of log-probabilities, which are never above 0"
    before = event.preceding
    clamped = any(name.startswith(CLAMP_NODES) for name in before) and before[-1].startswith(_LINEAR)
    if event.function == "binary_cross_entropy" and clamped:
        return f"logits clamped to [{low:.3g}, {high:.3g}]: values outside get no gradient"
    return ""
