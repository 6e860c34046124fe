"""LOS131 entropy-minimized: the loss of a policy grows with the policy's entropy, so exploration is punished.

What it sees
------------
In a recorded training step the loss is a weighted sum. It falls when a log-probability, weighted by an advantage, grows
(the policy is reinforced), and it grows with the entropy of a distribution that comes from the same weights.

Why it hurts
------------
An entropy term is there to keep the policy random enough to find better actions. With the wrong sign it makes the
policy deterministic in the first updates, on whatever action was a little better.

Evidence
--------
The weight of the entropy in the loss, and its line.

Use instead
-----------
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy

When it is fine
---------------
Not reported: losses without a reinforced log-probability (entropy minimization on unlabelled data, clustering), losses
that are costs, a weight of 0, and factors that the run learns.
"""

from typing import Final

from trueloop.event import Operation, StepProgram
from trueloop.event.operation_names import LOG_PROBABILITY_PATH, LOGARITHMS, PRODUCTS, SUBTRACTIONS
from trueloop.rules.program_linear import Part, parts_of
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["EntropyMinimized"]

SAMPLED: Final = 2  # steps that must show it
_SMALLER: Final = ("min", "minimum")
_PROBABILITIES: Final = ("softmax", "exp", "clamp")
_LOGS: Final = SUBTRACTIONS | {"log_softmax", "log", "clamp"}
_LOG_PATH: Final = LOG_PROBABILITY_PATH | {"mul", "div"}


class EntropyMinimized(Rule, code="LOS131", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.complete:
            return
        view = ProgramView(event)
        for loss in dict.fromkeys(event.losses):
            parts = parts_of(view, loss)
            if not any(part.weight < 0 and _is_reinforced(view, part.value) for part in parts):
                continue
            entropies = [part for part in parts if _is_entropy(view, part)]
            if not entropies or self.count(view.place_of(entropies[0].value)) != SAMPLED:
                continue
            place = view.place_of(view.through_views(loss))
            made = view.place_of(entropies[0].value)
            yield self.finding(
                event,
                f"The loss grows with the entropy of the policy{on_line(made, place)}: it is minimized.",
                fix="Subtract the entropy: `loss = policy_loss + value_loss - 0.01 * entropy`.",
                evidence={"entropy": made, "weight": abs(entropies[0].weight)},
                place=place,
            )


def _is_reinforced(view: ProgramView, value: int) -> bool:
    """A log-probability, or a ratio of probabilities, times numbers without a graph."""
    maker = view.maker(value)
    if maker is not None and maker.name in _SMALLER and maker.inputs:
        maker = view.maker(maker.inputs[0])
    if maker is None or maker.name not in PRODUCTS or len(maker.inputs) != 2:
        return False
    graphs = [view.values[index].grad for index in maker.inputs]
    return graphs.count(True) == 1 and _is_log_probability(view, maker.inputs[graphs.index(True)])


def _is_log_probability(view: ProgramView, value: int) -> bool:
    waiting, seen = [value], 0
    while waiting and seen < 60:
        seen += 1
        maker = view.maker(waiting.pop(0))
        if maker is None:
            continue
        if maker.name in LOGARITHMS | {"binary_cross_entropy_with_logits"}:
            return True
        if maker.name in _LOG_PATH or (maker.name == "exp" and _is_difference(view, maker)):
            waiting += maker.inputs[:32]
    return False


def _is_difference(view: ProgramView, operation: Operation) -> bool:
    behind = view.maker(operation.inputs[0])
    return behind is not None and behind.name in SUBTRACTIONS and len(behind.inputs) == 2


def _is_entropy(view: ProgramView, part: Part) -> bool:
    """With a weight by which the loss grows with it: p log p (of the opposite sign), or what a line with `entropy()` of
    a distribution made."""
    maker = view.maker(part.value)
    if maker is None or not maker.inputs or not view.values[part.value].grad:
        return False
    if maker.name in PRODUCTS and len(maker.inputs) == 2:
        names = [getattr(view.maker(view.through_views(index)), "name", "") for index in maker.inputs]
        either = any(one in _PROBABILITIES and other in _LOGS for one, other in (names, names[::-1]))
        return part.weight < 0 and either and names != ["clamp", "clamp"] and _same_source(view, maker)
    return maker.name == "log" and part.weight > 0 and _says_entropy(maker)


def _same_source(view: ProgramView, operation: Operation) -> bool:
    """Both factors come from the same scores: the first values that they share are near."""
    one, other = (list(_near(view, index)) for index in operation.inputs)
    return any(index in other and view.values[index].shape == view.values[operation.inputs[0]].shape for index in one)


def _near(view: ProgramView, value: int) -> list[int]:
    found, waiting = [value], [value]
    for _ in range(6):
        waiting = [i for index in waiting if (m := view.maker(index)) is not None for i in m.inputs if i not in found]
        found += waiting
    return found


def _says_entropy(operation: Operation) -> bool:
    """The user's line calls `entropy()`."""
    if operation.place is None:
        return False
    statement = source_of(operation.place.path).statement(operation.place.line)
    return statement is not None and any(called_name(call) == "entropy" for call in calls_in(statement))
