"""OPT103 frozen-layer-updated: a frozen layer still changes.

What it sees
------------
An error: the optimizer updates a parameter with `requires_grad=False`. It was frozen after the optimizer was created
and still has a gradient: zeros (`zero_grad(set_to_none=False)`), with which weight decay and momentum still act, or its
last gradient, which nothing clears.

A warning: in a model that trains, or in a trained backbone that is frozen whole beside it, batch norm layers with
frozen weights are in train mode, and their running statistics follow the batches.

Why it hurts
------------
`requires_grad = False` only stops autograd. It stops neither the optimizer nor the running statistics of batch norm. A
frozen encoder that changes is no longer the pretrained one: its features shift under the head being trained, and weight
decay shrinks the weights without a gradient to hold them.

Evidence
--------
Which parameters or layers changed, by how much, over how many steps, and the cause: weight decay, momentum, an old
gradient, or the batches.

Use instead
-----------
    encoder.requires_grad_(False)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)

    model.train()
    encoder.eval()          # batch norm keeps its statistics

When it is fine
---------------
Not reported: frozen parameters without a gradient (`zero_grad()` sets it to None, and the optimizer skips them); the
first step after freezing, if its backward came before; gradients that your code assigns; a discriminator frozen while
its generator trains; batch norm in eval mode, without weights, or in a network that follows another network (EMA,
momentum encoder); random networks whose statistics settle only now.

If statistics should follow new data while the weights stay: `# trueloop: allow[frozen-layer-updated]`.
"""

import ast

from trueloop.event import FrozenMoved, FrozenStatisticsMoved, Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts, plural
from trueloop.usercode.source import called_name, calls_in, diff, source_of

__all__ = ["FrozenLayerUpdated"]


class FrozenLayerUpdated(Rule, code="OPT103", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"
    applies_after = (Stepped,)

    def on_frozen_moved(self, event: FrozenMoved) -> Findings:
        causes = ["an old gradient"] if event.gradients == "stale" else []
        causes += [f"weight decay {event.decay:g}"] if event.decay else []
        causes += ["momentum"] if event.momentum else []
        names = ", ".join(name for name in event.parameters if name) or "parameters of an unknown model"
        yield self.finding(
            event,
            f"{event.name} still updates {plural(event.moved, 'frozen parameter')} ({names}) through "
            f"{' and '.join(causes) or 'its update rule'}: "
            f"`.grad` is {'zeros' if event.gradients == 'zero' else 'set'}, not None.",
            fix="Freeze before you create the optimizer and pass it only trainable parameters, or call `zero_grad()` "
            "without `set_to_none=False`.",
            evidence=facts(
                event,
                "optimizer=name moved frozen parameters gradients largest_change_in_one_step=change weight_decay=decay",
            ),
            place=_freezing(event.place),
            diff=_cleared_to_none(event.place) if event.gradients == "zero" else "",
        )

    def on_frozen_statistics_moved(self, event: FrozenStatisticsMoved) -> Findings:
        yield self.finding(
            event,
            f"{plural(event.count, 'frozen batch norm layer')} of {event.model} ({', '.join(event.layers)}) still "
            f"updated their statistics: a running mean moved by {event.change:.3g} in {plural(event.steps, 'step')}.",
            fix="Call `.eval()` on the frozen layers after each `model.train()`.",
            evidence=facts(event, "layers=count names=layers largest_change=change steps"),
            place=_freezing(event.place),
            severity=Severity.WARNING,
        )


def _freezing(place: Place | None) -> Place | None:
    """The line that freezes, if the file has only one; otherwise the line of the step."""
    if place is None:
        return None
    source = source_of(place.path)
    lines = [node for node in ast.walk(source.tree) if isinstance(node, ast.stmt) and _freezes(node)]
    return source.place(lines[0], place.function) if len(lines) == 1 else place


def _freezes(statement: ast.stmt) -> bool:
    """`p.requires_grad = False`, `encoder.requires_grad_(False)`; not a compound statement around one."""
    if isinstance(statement, ast.Assign):
        named = any(isinstance(node, ast.Attribute) and node.attr == "requires_grad" for node in statement.targets)
        return named and isinstance(statement.value, ast.Constant) and statement.value.value is False
    if not isinstance(statement, ast.Expr):
        return False
    arguments = [arg for call in calls_in(statement) if called_name(call) == "requires_grad_" for arg in call.args]
    return any(isinstance(argument, ast.Constant) and argument.value is False for argument in arguments)


def _cleared_to_none(place: Place | None) -> str:
    """`zero_grad(set_to_none=False)` without its argument, if the file has one such call."""
    if place is None:
        return ""
    source = source_of(place.path)
    calls = [c for c in calls_in(source.tree) if called_name(c) == "zero_grad" and (c.args or c.keywords)]
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno:
        return ""
    return diff(place.path, [source.replacing(calls[0], f"{source.text(calls[0].func)}()")])
