"""LOS114 advantage-not-detached: the policy's loss also trains the critic, through the advantage.

What it sees
------------
In a recorded training step, a log-probability (or a ratio of probabilities) is multiplied by a difference of returns
and predicted values, and that difference still has its graph.

Why it hurts
------------
The advantage says how good an action was; it is a constant for the policy. With its graph, minimizing the policy's
loss moves the critic too: it predicts whatever makes the loss small, not the returns.

Evidence
--------
The shapes of both factors, and the line that computed the difference.

Use instead
-----------
    advantage = returns - values.detach()

When it is fine
---------------
Not reported: differences without a graph, and products that hold no log-probability.
"""

from typing import Final

from trueloop.event import StepProgram
from trueloop.rules.program_view import VIEWS, ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["AdvantageNotDetached"]

_PRODUCTS: Final = ("mul", "__mul__", "__rmul__", "multiply")
_DIFFERENCES: Final = ("sub", "__sub__", "__rsub__", "subtract")
_LOG_PATH: Final = VIEWS | {"stack", "cat", "gather", "sum", "neg", "__getitem__", "squeeze", "log_prob", "add", "sub",
                            "__neg__", "mean", "broadcast_tensors", "clamp"}  # fmt: skip
_LOGS: Final = ("log_softmax", "logsumexp", "log", "logsigmoid")


class AdvantageNotDetached(Rule, code="LOS114", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in _PRODUCTS or len(operation.inputs) != 2:
                continue
            if operation.outputs[0] not in view.on_loss_path:
                continue
            for policy, advantage in (operation.inputs, operation.inputs[::-1]):
                made = _difference(view, advantage)
                if made is None or not view.values[policy].grad or not _is_log_probability(view, policy):
                    continue
                place = view.place_of(made)
                yield self.finding(
                    event,
                    f"A log-probability is multiplied by an advantage that has a graph{on_line(place, operation.place)}"
                    ": the policy's loss sends gradients into the critic.",
                    fix="Detach the predicted values: `advantage = returns - values.detach()`.",
                    evidence={"shape": list(view.values[advantage].shape), "advantage_at": place},
                    place=place or operation.place,
                )


def _difference(view: ProgramView, value: int) -> int | None:
    """The difference of numbers without a graph and predictions with one that a value was made by, behind reshapes."""
    value = view.through_views(value)
    maker = view.maker(value)
    if maker is None or maker.name not in _DIFFERENCES or len(maker.inputs) != 2 or not view.values[value].grad:
        return None
    graphs = [view.values[index].grad for index in maker.inputs]
    return value if graphs.count(True) == 1 and view.values[value].shape != () else None


def _is_log_probability(view: ProgramView, value: int) -> bool:
    """A log-probability of a distribution or of a log-softmax, or the exponential of a difference of two of them."""
    waiting, seen = [value], 0
    while waiting and seen < 40:
        seen += 1
        maker = view.maker(waiting.pop())
        if maker is None:
            continue
        if maker.name in _LOGS:
            return True
        if maker.name == "exp":
            behind = view.maker(maker.inputs[0])
            if behind is not None and behind.name in _DIFFERENCES and len(behind.inputs) == 2:
                waiting += behind.inputs
        elif maker.name in _LOG_PATH or maker.name in _DIFFERENCES:
            waiting += maker.inputs[:64]
    return False
