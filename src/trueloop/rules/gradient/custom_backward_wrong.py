"""GRD117 custom-backward-wrong: the backward of a custom autograd function is not the derivative of its forward.

What it sees
------------
A `torch.autograd.Function` of the script's own returns gradients that do not fit its forward: of the wrong sign,
multiplied by a factor, zero, or the same for every gradient that comes in. Measured at the end of the run: copies of
the inputs of one call are changed a little, and the change of the outputs is compared with what the backward returns.

Why it hurts
------------
Every layer before the function gets a wrong gradient, and nothing raises. The model then trains slowly, to a wrong
result, or away from the minimum.

Evidence
--------
The input, the gradient that the backward returned and the measured one, and how many elements were compared.

Use instead
-----------
Multiply the derivative by the gradient that comes in, and test it in double precision:

    return grad_output * (sig + x * sig * (1 - sig))
    torch.autograd.gradcheck(Swish.apply, torch.randn(8, dtype=torch.double, requires_grad=True))

When it is fine
---------------
Not reported: functions whose backward is something else on purpose. These are forwards that are constant in steps
(straight-through estimators, spikes), identities (gradient reversal, scaling, clipping), random forwards, backwards
that are not linear in the incoming gradient, functions with an input that only the backward reads (feedback
alignment), and names that say so (`SurrogateSpike`). The function runs again in a fork of the process, on copies, so
it has no effect on the run.
"""

from trueloop.event import BackwardError, BackwardTried
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["CustomBackwardWrong"]

_SAID = {
    "sign": "has the wrong sign: its backward returns {given:.3g} where the slope of its forward is {measured:.3g}",
    "factor": "is {ratio:.3g} times the derivative: its backward returns {given:.3g} where the slope is {measured:.3g}",
    "ignores": "does not depend on `grad_output`: its backward returns the same for every gradient that comes in",
    "missing": "is missing: its backward returns None, but the slope of its forward is {measured:.3g}",
    "zero": "is zero, but the slope of its forward is {measured:.3g}",
    "differs": "is not the derivative: its backward returns {given:.3g} where the forward's slope is {measured:.3g}",
}
_FIX = {
    "sign": "Invert the sign of the gradient for `{input}` in `{function}.backward`",
    "factor": "Divide the gradient for `{input}` in `{function}.backward` by {ratio:.3g}",
    "ignores": "Multiply the gradient for `{input}` in `{function}.backward` by `grad_output`",
    "missing": "Return the gradient for `{input}` from `{function}.backward`",
    "zero": "Return the gradient for `{input}` from `{function}.backward`",
    "differs": "Correct the gradient for `{input}` in `{function}.backward`",
}


class CustomBackwardWrong(Rule, code="GRD117", severity=Severity.ERROR):
    not_applicable = "no custom `torch.autograd.Function` was used in training"

    def __init__(self) -> None:
        self._refused: list[str] = []
        self._compared = 0

    def on_backward_tried(self, event: BackwardTried) -> Findings:
        if event.refused:
            self._refused.append(f"`{event.function}`: {event.refused}")
            return
        self._compared += 1
        for error in event.errors[:1]:
            numbers = {name: getattr(error, name) for name in ("input", "ratio", "given", "measured")}
            said = _SAID[error.pattern].format(**numbers)
            fix = _FIX[error.pattern].format(**numbers, function=event.function)
            yield self.finding(
                event,
                f"The gradient of `{event.function}` for `{error.input}` {said} "
                f"({error.share:.0%} of {plural(error.compared, 'element')} differ by more than 10 %).",
                fix=f"{fix}, and test it: `torch.autograd.gradcheck({event.function}.apply, inputs)` in float64.",
                evidence={
                    "function": event.function,
                    "input": error.input,
                    "backward": error.given,
                    "measured": error.measured,
                    "compared": error.compared,
                    "called at": event.called_at,
                    "wrong inputs": [other.input for other in event.errors],
                },
                severity=self.severity if _is_sure(error) else Severity.WARNING,
            )

    def why_not_checked(self) -> str:
        return "" if self._compared else "; ".join(self._refused)


def _is_sure(error: BackwardError) -> bool:
    """A smooth function other than the derivative may be meant, or a smaller learning rate for one input."""
    if error.pattern == "differs":
        return error.ratio < 0
    return error.pattern != "factor" or error.ratio < 0 or not error.others_fit
