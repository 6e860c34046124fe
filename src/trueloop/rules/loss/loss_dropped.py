"""LOS115 loss-dropped: several losses are computed in a step, and only the last one is trained.

What it sees
------------
In at least three recorded training steps, and in all of them, one line computes a loss several times, with a graph,
and only the last result is part of what backward is called on. The others were computed from the same activations, or
from the same data by different weights.

A second case: a loss or a weighted loss is computed, and nothing reads it, not even a print. An optimizer holds
parameters that only this loss would train, and they get no gradient in the whole run.

Why it hurts
------------
`loss = ...` in a loop over heads, horizons or tasks replaces the loss of the one before, and so does `loss =+ ...`.
Everything but the last is computed and thrown away: those outputs are never trained.

Evidence
--------
How many losses the line computed, and how many reached backward; or the parameters that are not trained.

Use instead
-----------
    loss = 0
    for head in heads:
        loss = loss + criterion(head(x), y)

When it is fine
---------------
Not reported: losses that are only measured (without a graph, or on different data), losses that were compared with one
another (the smallest of several is trained), and lines of which a different result is trained in any recorded step.
Nor a loss that the script looks at and does not train, or one that is trained later in the run.
"""

from collections import Counter
from typing import Final

from trueloop.event import ParametersWithoutGradient, Place, RunEnded, StepProgram
from trueloop.event.operation_names import ADDITIONS, LOSSES, NEGATIONS, ORDERINGS, SCALINGS, SUBTRACTIONS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LossDropped"]

PROGRAMS: Final = 3  # recorded steps that must agree
_REDUCTIONS: Final = LOSSES | {"mean", "sum"}
_CHOICES: Final = ORDERINGS | {
    "min", "max", "minimum", "maximum", "argmin", "argmax", "sort", "argsort", "topk", "grad", "backward",
}  # fmt: skip
"""Operations that choose among losses, or differentiate them."""
_WEIGHINGS: Final = SCALINGS | ADDITIONS | SUBTRACTIONS | NEGATIONS | {"positive", "__pos__"}
"""From a loss to a weighted one: a result that nothing reads is still a loss that nothing reads."""


class LossDropped(Rule, code="LOS115", severity=Severity.WARNING):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._dropped: Counter[Place | None] = Counter()
        self._used: set[Place | None] = set()  # lines of which a result before the last was used
        self._last: dict[Place | None, tuple[StepProgram, int]] = {}
        self._unread: Counter[Place | None] = Counter()  # steps in which nothing read a loss of this line
        self._idle: dict[Place | None, set[str]] = {}  # parameters behind it that no loss of the step reached
        self._steps = 0

    def on_step_program(self, event: StepProgram) -> None:
        if event.phase != "training" or not event.complete or not event.losses:
            return
        view = ProgramView(event)
        self._steps += 1
        computed: dict[Place | None, list[int]] = {}
        for operation in event.operations:
            if operation.name in _REDUCTIONS and operation.outputs and not view.in_model(operation):
                value = view.values[operation.outputs[0]]
                if value.grad and value.shape == ():
                    computed.setdefault(operation.place, []).append(operation.outputs[0])
        for place, results in computed.items():
            used = [result in view.on_loss_path for result in results]
            if any(used[:-1]) or len(set(event.losses)) != 1:
                self._used.add(place)
            elif len(results) > 1 and used[-1] and all(_is_task(view, r, results[-1]) for r in results[:-1]):
                self._dropped[place] += 1
                self._last[place] = event, len(results)
        self._find_unread(view, [result for results in computed.values() for result in results])

    def _find_unread(self, view: ProgramView, results: list[int]) -> None:
        idle: dict[Place | None, set[str]] = {}
        for result in results:
            end = None if result in view.on_loss_path else _unread_end(view, result)
            if end is None:
                continue
            values = (view.values[index] for index in view.behind(result) if index not in view.on_loss_path)
            names = {value.name for value in values if value.trainer == "optimizer" and value.grad and value.name}
            place = view.place_of(end)
            idle[place] = idle.get(place, set()) | names
        for place, names in idle.items():
            self._unread[place] += 1
            self._idle[place] = names & self._idle.get(place, names)

    def on_parameters_without_gradient(self, event: ParametersWithoutGradient) -> Findings:
        for place, steps in self._unread.items():
            names = sorted(self._idle[place] & set(event.names))
            if steps < PROGRAMS or steps < self._steps or not names or place is None:
                continue
            shown = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
            yield self.finding(
                event,
                f"A loss of this line is computed in each recorded step, and nothing reads it: {shown} got no gradient "
                f"in the whole run, although an optimizer holds them.",
                fix="Add the losses up (`total += loss`, not `total =+ loss`), and call backward on the sum.",
                evidence={"parameters": names[:16], "steps": steps},
                place=place,
            )

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, steps in self._dropped.items():
            if steps < PROGRAMS or place in self._used:
                continue
            event, count = self._last[place]
            yield self.finding(
                event,
                f"This line computes {count} losses in a step and only the last one reaches backward: the other "
                f"{count - 1} are not trained.",
                fix="Add the losses up (`total = total + loss`), and call backward on the sum.",
                evidence={"computed": count, "used": 1, "steps": steps},
                place=place,
            )


def _unread_end(view: ProgramView, value: int) -> int | None:
    """The last weighted form of a loss, if nothing else reads the loss or any of those forms."""
    waiting, end = [value], value
    while waiting:
        end = waiting.pop()
        for operation in view.readers.get(end, ()):
            if operation.name not in _WEIGHINGS or not operation.outputs or operation.outputs[0] == end:
                return None
            waiting.append(operation.outputs[0])
    return end


def _is_task(view: ProgramView, dropped: int, kept: int) -> bool:
    """Two losses of one forward: from shared activations, or from shared data by different weights; and the dropped one
    was not compared with others."""
    one, other = set(view.behind(dropped)), set(view.behind(kept))
    weights = [{i for i in values if view.values[i].origin == "parameter"} for values in (one, other)]
    shared = one & other
    activations = any(i in view.learned and i not in weights[0] and view.values[i].grad for i in shared)
    data = any(i in view.from_data for i in shared)
    return (activations or (data and bool(weights[0] - weights[1]))) and not _is_chosen(view, dropped)


def _is_chosen(view: ProgramView, value: int) -> bool:
    waiting, seen = [value], {value}
    while waiting and len(seen) < 200:
        for operation in view.readers.get(waiting.pop(), ()):
            if operation.name in _CHOICES:
                return True
            waiting += [index for index in operation.outputs if index not in seen]
            seen.update(operation.outputs)
    return False
