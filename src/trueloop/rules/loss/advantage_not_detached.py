"""LOS114 advantage-not-detached: the policy's loss also trains the critic, through the advantage.

What it sees
------------
In a recorded training step, a log-probability (or a ratio of probabilities) is multiplied by a difference of returns
and predicted values, normalized or not. That difference still has its graph, and the same predicted values also enter
a loss of their own in this step.

Why it hurts
------------
The advantage says how good an action was; it is a constant for the policy. With its graph, minimizing the policy's
loss moves the critic too: it predicts whatever makes the loss small, not the returns.

Evidence
--------
The shape of the advantage, and the line that computed the difference.

Use instead
-----------
    advantage = returns - values.detach()

When it is fine
---------------
Not reported: differences without a graph, products that hold no log-probability, differences of probabilities or of
their logarithms (KL divergence, entropy), and a policy that has its own backward and optimizer step before the critic
clears its gradients.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import DIFFERENCES, LOG_PROBABILITY_PATH, LOGARITHMS, PRODUCTS, QUOTIENTS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line

__all__ = ["AdvantageNotDetached"]

_LOG_PATH: Final = LOG_PROBABILITY_PATH | {"log_prob"}
_PROBABILITIES: Final = ("softmax", "sigmoid", "exp")


class AdvantageNotDetached(Rule, code="LOS114", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training":
            return
        view = ProgramView(event)
        products = [(o, *found) for o in event.operations if (found := _policy_term(view, o)) is not None]
        trained = _behind_losses(view, {id(operation) for operation, _, _ in products})
        for operation, difference, values in products:
            if values not in trained:
                continue
            place = view.place_of(difference)
            yield self.finding(
                event,
                f"A log-probability is multiplied by an advantage that has a graph{on_line(operation.place, place)}"
                ": the policy's loss sends gradients into the critic.",
                fix="Detach the predicted values: `advantage = returns - values.detach()`.",
                evidence={"shape": list(view.values[difference].shape), "multiplied_at": operation.place},
                place=place or operation.place,
            )


def _policy_term(view: ProgramView, operation: Operation) -> tuple[int, int] | None:
    """The advantage and the critic's values behind it, in a product with a log-probability; None in other products."""
    if operation.name not in PRODUCTS or len(operation.inputs) != 2 or view.in_model(operation):
        return None
    if operation.outputs[0] not in view.on_loss_path:
        return None
    for policy, advantage in (operation.inputs, operation.inputs[::-1]):
        found = _difference(view, advantage)
        if found is not None and view.values[policy].grad and _is_log_probability(view, policy):
            return found
    return None


def _difference(view: ProgramView, value: int) -> tuple[int, int] | None:
    """The difference of numbers without a graph and predictions with one that a value was made by, behind reshapes and
    normalization, and these predictions."""
    for _ in range(8):
        if not view.values[value].grad:
            return None
        value = view.through_views(value)
        maker = view.maker(value)
        if maker is None or not maker.inputs:
            return None
        graphs = [view.values[index].grad for index in maker.inputs]
        if maker.name in DIFFERENCES and len(graphs) == 2 and graphs.count(True) == 1:
            predicted = maker.inputs[graphs.index(True)]
            return None if _is_probability(view, predicted) else (value, _source(view, predicted))
        averages = len(graphs) == 2 and getattr(view.maker(maker.inputs[1]), "name", "") == "mean"
        if maker.name not in QUOTIENTS | {"__getitem__"} and not (maker.name in DIFFERENCES and averages):
            return None
        value = maker.inputs[0]
    return None


def _is_probability(view: ProgramView, value: int) -> bool:
    maker = view.maker(view.through_views(value))
    return (maker is not None and maker.name in _PROBABILITIES) or _is_log_probability(view, value)


def _source(view: ProgramView, value: int) -> int:
    """The value behind reshapes and slices."""
    for _ in range(8):
        value = view.through_views(value)
        maker = view.maker(value)
        if maker is None or maker.name not in ("__getitem__", "stack", "cat") or not maker.inputs:
            return value
        value = maker.inputs[0]
    return value


def _behind_losses(view: ProgramView, without: set[int]) -> set[int]:
    """What the losses were computed from, leaving out these operations."""
    seen, waiting = set(view.program.losses), list(view.program.losses)
    while waiting:
        maker = view.maker(waiting.pop())
        for index in () if maker is None or id(maker) in without else maker.inputs:
            if index not in seen:
                seen.add(index)
                waiting.append(index)
    return seen


def _is_log_probability(view: ProgramView, value: int) -> bool:
    """A log-probability of a distribution or of a log-softmax, or the exponential of a difference of two of them."""
    waiting, seen = [value], 0
    while waiting and seen < 40:
        seen += 1
        maker = view.maker(waiting.pop())
        if maker is None:
            continue
        if maker.name in LOGARITHMS:
            return True
        if maker.name == "exp":
            behind = view.maker(maker.inputs[0])
            if behind is not None and behind.name in DIFFERENCES and len(behind.inputs) == 2:
                waiting += behind.inputs
        elif maker.name in _LOG_PATH or maker.name in DIFFERENCES:
            waiting += maker.inputs[:64]
        elif maker.name in PRODUCTS and len(maker.inputs) == 1:
            waiting += maker.inputs
    return False
