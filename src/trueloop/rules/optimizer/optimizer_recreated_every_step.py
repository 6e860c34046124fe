"""OPT110 optimizer-recreated-every-step: a new optimizer is created every step or two, so its state is lost.

What it sees
------------
Three times in a row an optimizer was created over exactly the parameters of another optimizer that had taken one or two
steps and held state (momentum, Adam's averages), and the weights were as its last step left them.

Why it hurts
------------
Momentum and Adam's averages are stored in the optimizer. Without them SGD has no momentum, and every Adam step has full
size in the direction of each gradient's sign: noisy, too large near a minimum, and betas have no effect. Creating it
also costs time.

Evidence
--------
How many optimizers were dropped, after how many steps each, and for how many parameters they had state.

Use instead
-----------
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        ...
        optimizer.step()

When it is fine
---------------
Not reported: a new optimizer for each epoch, stage, fold or client; optimizers without state (SGD without momentum);
different parameters (gradual unfreezing, a copy of the model, a new image to optimize); weights that were restored
before (test-time adaptation, learning rate search); steps with a closure (LBFGS).
"""

import ast
from typing import Final

from trueloop.event import SHORT_LIFE, OptimizerRebuilt, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural
from trueloop.rules.shared_thresholds import DROPPED_IN_A_ROW
from trueloop.usercode.rewrite import block_of, loops_around, owns_its_lines
from trueloop.usercode.source import Edit, Source, called_name, calls_in, diff, source_of

__all__ = ["OptimizerRecreatedEveryStep"]

PLAIN_CALLS: Final = ("parameters", "named_parameters", "filter", "list")
"""Calls in the line that give the same result inside and before the loop."""


class OptimizerRecreatedEveryStep(Rule, code="OPT110", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"
    applies_after = (Stepped,)

    def __init__(self) -> None:
        self._in_a_row: dict[int, int] = {}

    def on_optimizer_rebuilt(self, event: OptimizerRebuilt) -> Findings:
        short = event.steps <= SHORT_LIFE and not event.closure
        lost = short and event.parameters_with_state > 0 and event.weights_continue
        count = self._in_a_row[event.parameter_set] = self._in_a_row.get(event.parameter_set, 0) + 1 if lost else 0
        if count < DROPPED_IN_A_ROW:
            return
        yield self.finding(
            event,
            f"A new `{event.name}` replaces the old one after every {plural(event.steps, 'step')}: {count} in a row "
            f"lost their state for {plural(event.parameters_with_state, 'parameter')}.",
            fix="Create the optimizer once, before the loop.",
            evidence=facts(event, "optimizer=name dropped steps_each=steps parameters_with_state step", dropped=count),
            diff="" if event.place is None else _before_the_loop(event.place),
        )


def _before_the_loop(place: Place) -> str:
    """Moves the line before the outermost loop that assigns nothing it reads."""
    source = source_of(place.path)
    statement = source.statement(place.line)
    if not isinstance(statement, ast.Assign) or statement.lineno != statement.end_lineno:
        return ""
    inner = (call for call in calls_in(statement.value) if call is not statement.value)
    plain = all(called_name(call) in PLAIN_CALLS for call in inner)
    if not plain or len(block_of(source, statement)) < 2 or not owns_its_lines(source, statement):
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


def _changed(source: Source, loop: ast.stmt, assignment: ast.Assign) -> bool:
    """Does the loop assign a name of this line elsewhere?"""
    own = set(ast.walk(assignment))
    named = [node for node in ast.walk(loop) if isinstance(node, (ast.Name, ast.Attribute)) and node not in own]
    written = {source.text(node) for node in named if isinstance(node.ctx, (ast.Store, ast.Del))}
    touched = {source.text(node) for node in own if isinstance(node, (ast.Name, ast.Attribute))}
    return bool(written & touched)
