"""OPT103 frozen-but-moving: a layer was frozen, and changes all the same.

What it sees
------------
An error: a parameter that needs no gradient any more, since a step or longer, is moved by its optimizer. It was frozen
after the optimizer was built, and still has a gradient: zeros (`zero_grad(set_to_none=False)`), which let decay and
momentum go on, or the last one it was given, which nobody clears.

A warning: in a model that trains, batch norm layers whose weights are frozen are in train mode, and their running
statistics follow the batches.

Why it hurts
------------
`requires_grad = False` tells autograd to compute no gradient. It does not tell the optimizer to leave the weight alone,
nor a batch norm to leave its statistics alone. A frozen encoder that drifts is no longer the pretrained one: features
move under the head that is trained on them, and decay takes the weights towards zero without a gradient to hold them.

Evidence
--------
Which parameters or layers moved, how far, over how many steps, and what moved them: decay, momentum, an old gradient,
or the batches.

Use instead
-----------
    encoder.requires_grad_(False)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)

    model.train()
    encoder.eval()          # batch norm keeps its statistics

When it is fine
---------------
Not reported: frozen parameters without a gradient (`zero_grad()` sets them to None, and the optimizer passes over
them); the one step after a backward that came before the freezing; gradients that are given by hand; a discriminator
that is frozen while its generator trains; batch norm layers in eval mode or without weights, and those of a network
that follows another one (an average, a momentum encoder), whose weights move too.

Statistics that are meant to follow new data while the weights stay can be allowed: `# trueloop:
allow[frozen-but-moving]`.
"""

from __future__ import annotations

import ast
from typing import final

from trueloop.event import FrozenMoved, FrozenStatisticsMoved, Place, Stepped
from trueloop.finding import Severity
from trueloop.results.check import counted
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import called_name, calls_in, diff, source_of

__all__ = ["FrozenButMoving"]


@final
class FrozenButMoving(Rule):
    code = "OPT103"
    name = "frozen-but-moving"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"

    def on_stepped(self, event: Stepped) -> None:
        """Where there are steps there is something to judge."""

    def on_frozen_moved(self, event: FrozenMoved) -> Findings:
        causes = ["an old gradient"] if event.gradients == "stale" else []
        causes += [f"weight decay {event.decay:g}"] if event.decay else []
        causes += ["momentum"] if event.momentum else []
        names = ", ".join(name for name in event.parameters if name) or "parameters of no model seen"
        yield self.finding(
            event,
            f"{event.name} still moves {counted(event.moved, 'frozen parameter')} ({names}) by {' and '.join(causes) or 'its own rule'}: "
            f"they need no gradient, but have one{' of zeros' if event.gradients == 'zero' else ''}.",
            fix="Freeze before the optimizer is built and give it only what trains, or let zero_grad() set gradients to None.",
            evidence={
                "optimizer": event.name,
                "moved": event.moved,
                "frozen": event.frozen,
                "parameters": list(event.parameters),
                "gradients": event.gradients,
                "largest_change_in_one_step": event.change,
                "weight_decay": event.decay,
            },
            place=_freezing(event.place),
            diff=_cleared_to_none(event.place) if event.gradients == "zero" else "",
        )

    def on_frozen_statistics_moved(self, event: FrozenStatisticsMoved) -> Findings:
        names = ", ".join(event.layers)
        yield self.finding(
            event,
            f"{counted(event.count, 'batch norm layer')} of {event.model} ({names}) with frozen weights took new statistics from the "
            f"batches: a running mean moved by {event.change:.3g} in {counted(event.steps, 'step')}.",
            fix="Set the frozen layers to eval mode after each model.train().",
            evidence={
                "layers": event.count,
                "names": list(event.layers),
                "largest_change": event.change,
                "steps": event.steps,
            },
            place=_freezing(event.place),
            severity=Severity.WARNING,
        )


def _freezing(place: Place | None) -> Place | None:
    """The line that freezes, if the file has only one; otherwise the line that steps."""
    if place is None:
        return None
    source = source_of(place.path)
    lines = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt) and _freezes(node)]
    return source.place(lines[0], place.function) if len(lines) == 1 else place


def _freezes(statement: ast.stmt) -> bool:
    """`p.requires_grad = False`, `encoder.requires_grad_(False)`; what a compound statement holds counts for itself."""
    if isinstance(statement, ast.Assign):
        named = any(
            isinstance(target, ast.Attribute) and target.attr == "requires_grad" for target in statement.targets
        )
        return named and isinstance(statement.value, ast.Constant) and statement.value.value is False
    if not isinstance(statement, ast.Expr):
        return False
    given = [
        argument for call in calls_in(statement) if called_name(call) == "requires_grad_" for argument in call.args
    ]
    return any(isinstance(argument, ast.Constant) and argument.value is False for argument in given)


def _cleared_to_none(place: Place | None) -> str:
    """`zero_grad(set_to_none=False)` without its argument, if the file has one such call."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls = [
        call for call in calls_in(source.tree) if called_name(call) == "zero_grad" and (call.args or call.keywords)
    ]
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno:
        return ""
    return diff(place.path, [source.replacing(calls[0], f"{source.text(calls[0].func)}()")])
