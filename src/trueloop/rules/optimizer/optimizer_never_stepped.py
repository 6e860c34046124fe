"""OPT112 optimizer-never-stepped: gradients are computed and cleared, but `optimizer.step()` is never called.

What it sees
------------
An optimizer was created, its parameters got gradients from many backwards, the gradients were cleared each time, and
`step()` was not called until the run ended. The weights are the initial ones.

Why it hurts
------------
The model learns nothing. The loss still varies from batch to batch, so the log looks like training that does not
converge.

Evidence
--------
The optimizer, the number of backwards, and how often gradients were cleared unused.

Use instead
-----------
    loss.backward()
    optimizer.step()

When it is fine
---------------
Not reported: an optimizer whose parameters your code updates, gradients accumulated for a later step, models in eval
mode (saliency, adversarial attacks), and steps that a GradScaler skips.
"""

import ast
from typing import Final

from trueloop.event import OptimizerIdle, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.rewrite import after
from trueloop.usercode.source import diff, source_of

__all__ = ["OptimizerNeverStepped"]

CLEARED: Final = 5  # Clearings without a step: a GAN takes up to five critic steps per generator step


class OptimizerNeverStepped(Rule, code="OPT112", severity=Severity.ERROR):
    not_applicable = "no optimizer was built"
    applies_after = (Stepped,)

    def on_optimizer_idle(self, event: OptimizerIdle) -> Findings:
        if event.cleared < CLEARED:
            return
        yield self.finding(
            event,
            f"`step()` of {event.name} was never called: {event.backwards} backwards computed gradients, which were "
            f"cleared {event.cleared} times unused.",
            fix="Call `optimizer.step()` after `loss.backward()`.",
            evidence={"optimizer": event.name, "backwards": event.backwards, "cleared": event.cleared, "steps": 0},
            diff=_step_after(event.place, event.backward_place),
        )


def _step_after(built: Place | None, backward: Place | None) -> str:
    """`optimizer.step()` after the backward, if both are in one function and the optimizer has a plain name."""
    if built is None or backward is None or built.path != backward.path:
        return ""
    source = source_of(built.path)
    assignment, statement = source.statement(built.line), source.statement(backward.line)
    if source.enclosing_function(built.line) is not source.enclosing_function(backward.line):
        return ""
    if not isinstance(assignment, ast.Assign) or not isinstance(assignment.targets[0], ast.Name):
        return ""
    if not isinstance(statement, ast.Expr):
        return ""
    return diff(built.path, [after(source, statement, f"{assignment.targets[0].id}.step()")])
