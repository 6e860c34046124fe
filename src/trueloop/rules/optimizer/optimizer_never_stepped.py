"""OPT112 optimizer-never-stepped: gradients are computed and cleared, batch after batch, and no step uses them.

What it sees
------------
An optimizer was built, backward after backward brought gradients to its parameters, they were cleared each time, and
until the run's end its `step()` was never called. The weights are those that the model was built with.

Why it hurts
------------
Nothing is learnt. The loss still moves from batch to batch, as batches differ, so the log looks like a training that
does not converge.

Evidence
--------
The optimizer, how many backwards there were, and how often their gradients were cleared unused.

Use instead
-----------
    loss.backward()
    optimizer.step()

When it is fine
---------------
Not reported: an optimizer whose parameters are moved by hand, gradients that are gathered for a step still to come,
models in eval mode (saliency, attacks on inputs), and steps that a gradient scaler leaves out.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import OptimizerIdle, Place, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import after
from trueloop.usercode.source import diff, source_of

__all__ = ["OptimizerNeverStepped"]

CLEARED: Final = 5
"""Clearings without a step before it is said. A critic is stepped five times for one step of its generator, and then
the generator is."""


@final
class OptimizerNeverStepped(Rule):
    code = "OPT112"
    name = "optimizer-never-stepped"
    severity = Severity.ERROR
    not_applicable = "no optimizer was built"

    def on_stepped(self, event: Stepped) -> None:
        """In order."""

    def on_optimizer_idle(self, event: OptimizerIdle) -> Findings:
        if event.cleared < CLEARED:
            return
        yield self.finding(
            event,
            f"{event.name} was never stepped: {event.backwards} backwards brought gradients to its parameters, which were cleared "
            f"{event.cleared} times unused.",
            fix="Call optimizer.step() after the backward.",
            evidence={"optimizer": event.name, "backwards": event.backwards, "cleared": event.cleared, "steps": 0},
            diff=_step_after(event.place, event.backward_place),
        )


def _step_after(built: Place | None, backward: Place | None) -> str:
    """`optimizer.step()` right after the backward, where both stand in one function and the optimizer has a plain
    name."""
    if built is None or backward is None or built.path != backward.path:
        return ""
    source = source_of(built.path)
    assignment, statement = source.statement(built.line), source.statement(backward.line)
    if source.enclosing_function(built.line) is not source.enclosing_function(backward.line):
        return ""
    if (
        not isinstance(assignment, ast.Assign)
        or not isinstance(assignment.targets[0], ast.Name)
        or not isinstance(statement, ast.Expr)
    ):
        return ""
    return diff(built.path, [after(source, statement, f"{assignment.targets[0].id}.step()")])
