"""LOS133 rate-passed-as-log-rate: a Poisson loss that takes the logarithm of the rate gets the rate.

What it sees
------------
In a recorded training step `poisson_nll_loss`, with `log_input=True` (the default), gets the result of `exp` or
`softplus`, perhaps times an exposure.

Why it hurts
------------
The loss applies `exp` once more. Its best input is the logarithm of the expected count, but the model's output cannot
be negative: counts below 1 are out of reach, and the model predicts the logarithm where a count is expected.

Evidence
--------
The operation that made the input, its line, and the range of the input.

Use instead
-----------
    loss = F.poisson_nll_loss(rate, counts, log_input=False)
    loss = F.poisson_nll_loss(log_rate + exposure.log(), counts)     # the model returns the logarithm

When it is fine
---------------
Not reported: `log_input=False`, and inputs without an `exp` or `softplus` of the model's scores.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import ADDITIONS, CLAMPS, PRODUCTS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["RatePassedAsLogRate"]

SAMPLED: Final = 2  # steps that must show it
_RATES: Final = ("exp", "softplus")
_KEEPING: Final = VIEWS | CLAMPS | ADDITIONS | {"__getitem__"}


class RatePassedAsLogRate(Rule, code="LOS133", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            maker = _rate(view, operation)
            if maker is None or self.count(operation.place) != SAMPLED:
                continue
            given = view.values[operation.inputs[0]]
            yield self.finding(
                event,
                f"`poisson_nll_loss` expects the logarithm of the rate and gets the result of `{maker.name}`"
                f"{on_line(maker.place, operation.place)}: it applies `exp` again.",
                fix="Pass `log_input=False`, or give it the score without "
                f"`{maker.name}` (plus the logarithm of the exposure).",
                evidence={"made_by": maker.name, "at": maker.place, "smallest": given.smallest,
                          "largest": given.largest},
                place=operation.place,
            )  # fmt: skip


def _rate(view: ProgramView, operation: Operation) -> Operation | None:
    """The `exp` behind the input of a Poisson loss that applies `exp` itself."""
    if operation.name != "poisson_nll_loss" or not operation.inputs:
        return None
    if view.option(operation, "log_input", 2) == "False" or not view.values[operation.inputs[0]].grad:
        return None
    value = operation.inputs[0]
    for _ in range(12):
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return None
        if maker.name in _RATES:
            return maker if view.values[maker.inputs[0]].grad else None
        learned = [index for index in maker.inputs if view.values[index].grad]
        numbers = maker.name in ADDITIONS and (len(maker.inputs) > 1)
        if len(learned) != 1 or numbers or maker.name not in PRODUCTS | _KEEPING:
            return None
        value = learned[0]
    return None
