"""OPT110 optimizer-built-each-step: a new optimizer takes over after every step or two, and knows nothing of the one
before.

What it sees
------------
Three times in a row an optimizer was built over exactly the parameters that another one held, when that one had taken
one or two steps, held state (momentum, Adam's averages), and the weights were as its last step had left them.

Why it hurts
------------
Momentum and Adam's averages live in the optimizer. Thrown away after each step, SGD has no momentum, and Adam becomes a
step of full length along the sign of each gradient, however small: noisy, too large near the minimum, and nothing that
a setting like beta says is true. It also costs time.

Evidence
--------
How many optimizers were thrown away, after how many steps each, and for how many parameters they held state.

Use instead
-----------
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        ...
        optimizer.step()

When it is fine
---------------
Not reported: a new optimizer for each epoch, stage, fold or client, which lives for more steps; optimizers without
state (SGD without momentum); other parameters (gradual thawing, a copy of the model, a new image to be optimised);
weights that were put back before (each test sample adapted from the same start, a search for a learning rate); steps
with a closure (LBFGS, which does its work inside one step).
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import OptimizerRebuilt, Place, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import block_of, loops_around, owns_its_lines
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, source_of

__all__ = ["OptimizerBuiltEachStep"]

LIFE: Final = 2
"""Steps that an optimizer may have taken to count as thrown away at once. An epoch of two batches is the shortest one
there is."""
IN_A_ROW: Final = 3
"""Such optimizers in a row before it is said: stages that happen to be short do not come three times in the same
length."""
PLAIN_CALLS: Final = ("parameters", "named_parameters", "filter", "list")
"""Calls in the building line that give the same whenever they are made."""


@final
class OptimizerBuiltEachStep(Rule):
    code = "OPT110"
    name = "optimizer-built-each-step"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._in_a_row: dict[int, int] = {}

    def on_stepped(self, event: Stepped) -> None:
        """Where there are steps there is something to judge."""

    def on_optimizer_rebuilt(self, event: OptimizerRebuilt) -> Findings:
        lost = event.steps <= LIFE and event.parameters_with_state > 0 and event.weights_continue and not event.closure
        count = self._in_a_row[event.parameter_set] = self._in_a_row.get(event.parameter_set, 0) + 1 if lost else 0
        if count < IN_A_ROW:
            return
        each = "one step" if event.steps == 1 else f"{event.steps} steps"
        yield self.finding(
            event,
            f"A new {event.name} is built over the same {event.parameters_with_state} parameters again and again: {count} were thrown away in a row, after "
            f"{each} each, and what they had averaged is lost.",
            fix="Build the optimizer once, before the loop.",
            evidence={
                "optimizer": event.name,
                "thrown_away": count,
                "steps_each": event.steps,
                "parameters_with_state": event.parameters_with_state,
                "step": event.step,
            },
            diff="" if event.place is None else _before_the_loop(event.place),
        )


def _before_the_loop(place: Place) -> str:
    """The line moved before the outermost loop that changes nothing it reads."""
    source = source_of(place.path)
    statement = source.statement(place.line)
    if (
        not isinstance(statement, ast.Assign)
        or statement.lineno != statement.end_lineno
        or not owns_its_lines(source, statement)
    ):
        return ""
    calls = list(calls_in(statement.value))
    if len(block_of(source, statement)) < 2 or any(
        called_name(call) not in PLAIN_CALLS for call in calls if call is not statement.value
    ):
        return ""
    outer: ast.stmt | None = None
    for loop in loops_around(source, statement):
        if _changed(source, loop, statement):
            break
        outer = loop
    if outer is None or not owns_its_lines(source, outer):
        return ""
    text = source.lines[statement.lineno - 1].strip()
    moved = Edit(outer.lineno, outer.lineno - 1, (f"{source.indent(outer.lineno)}{text}",))
    return diff(place.path, [moved, Edit(statement.lineno, statement.lineno, ())])


def _changed(source: Source, loop: ast.stmt, building: ast.Assign) -> bool:
    """Is something that the building line reads, or the name it gives, assigned elsewhere in the loop?"""
    own = set(ast.walk(building))
    named = [node for node in ast.walk(loop) if isinstance(node, (ast.Name, ast.Attribute)) and node not in own]
    written = {source.text(node) for node in named if isinstance(node.ctx, (ast.Store, ast.Del))}
    touched = {source.text(node) for node in own if isinstance(node, (ast.Name, ast.Attribute))}
    return bool(written & touched)
