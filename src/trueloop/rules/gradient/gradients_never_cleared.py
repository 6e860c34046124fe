"""GRD101 gradients-never-cleared: each step also takes the gradients of all steps before it.

What it sees
------------
Between two steps of an optimizer a backward came, and nothing reset the gradients it added to. A reset is seen by what
it does (`.grad` becomes None, another tensor, or zero), not by how it is spelt: `optimizer.zero_grad()`,
`model.zero_grad()`,
`p.grad = None` and `p.grad.zero_()` are one thing.

Why it hurts
------------
backward() adds to `.grad`. Without a reset, step 100 moves the weights by the sum of a hundred gradients, most of them
computed for weights that no longer exist: training behaves like a far too high learning rate with endless momentum, and
often still seems to learn.

Evidence
--------
The optimizer, the number of steps taken without a reset, and the lines of the backward and of the step.

Use instead
-----------
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

When it is fine
---------------
Several backwards before one step (accumulation) are not reported as long as a reset comes before the next window; nor
are gradients that another optimizer's backward leaves behind and that are reset before they are used (GANs), nor
closures that reset inside the step (LBFGS).
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import Place, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Edit, Source, diff, source_of

__all__ = ["GradientsNeverCleared"]


@final
class GradientsNeverCleared(Rule):
    code = "GRD101"
    name = "gradients-never-cleared"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._uncleared: dict[int, int] = {}
        self._diffs: dict[tuple[Place | None, tuple[Place, ...]], str] = {}
        """By the lines of step and backwards: this rule speaks in every step, and a diff takes longer than a step."""

    def on_stepped(self, event: Stepped) -> Findings:
        if event.index == 0 or event.cleared or not event.backwards or event.gradients != "new":
            return
        count = self._uncleared[event.optimizer] = self._uncleared.get(event.optimizer, 0) + 1
        lines = (event.place, event.backward_places)
        if lines not in self._diffs:
            self._diffs[lines] = _reset_before(event)
        yield self.finding(
            event,
            f"{event.name} took step {event.index + 1} with gradients that still hold those of the step before: "
            "nothing reset them between the two.",
            fix="Reset the gradients once per step, before backward: optimizer.zero_grad().",
            evidence={
                "optimizer": event.name,
                "steps_without_reset": count,
                "backward": _shown(event.backward_places),
                "learning_rate": event.learning_rates[:1],
            },
            place=event.backward_places[0] if event.backward_places else event.place,
            diff=self._diffs[lines],
        )


def _shown(places: tuple[Place, ...]) -> list[str]:
    return [f"{place.path}:{place.line}" for place in places]


def _reset_before(event: Stepped) -> str:
    """`optimizer.zero_grad()` before the backward, when a step follows each backward of one loop."""
    if event.place is None or len(event.backward_places) != 1 or event.most_at_one_place != 1 or event.closure:
        return ""
    backward = event.backward_places[0]
    source = source_of(event.place.path)
    calls = source.calls(event.place.line, "step")
    statement = source.statement(backward.line)
    if backward.path != event.place.path or len(calls) != 1 or statement is None:
        return ""
    if not _step_each_time(source, statement, event.place):
        return ""
    given = calls[0].args  # scaler.step(optimizer)
    optimizer = source.text(given[0]) if given else source.text(calls[0].func).removesuffix(".step")
    line = f"{source.indent(statement.lineno)}{optimizer}.zero_grad()"
    return diff(backward.path, [Edit(statement.lineno, statement.lineno - 1, (line,))])


def _step_each_time(source: Source, backward: ast.stmt, step: Place) -> bool:
    """Both in one loop of one function, the step under no condition of its own: a window of backwards is not reset
    inside it."""
    statement = source.statement(step.line)
    if statement is None or source.enclosing_loop(backward.lineno) is not source.enclosing_loop(step.line):
        return False
    if source.enclosing_function(backward.lineno) is not source.enclosing_function(step.line):
        return False
    around = set(source.parents(backward))
    return not any(isinstance(parent, ast.If) and parent not in around for parent in source.parents(statement))
