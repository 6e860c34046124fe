"""GRD104 accumulation-not-averaged: gradient accumulation sums the batches instead of averaging them.

What it sees
------------
At least twice, the same number of backwards on one line ran before a step. Each loss is a mean and is not divided by
the number of batches, and neither are the gradients. The source shows an accumulation window: the step runs only in
some iterations of the loop around the backward, or follows an inner loop over micro-batches.

Why it hurts
------------
Four undivided mean losses give a gradient four times as large as one batch of the same total size. This silently
multiplies the learning rate by the number of accumulation steps, and changes it whenever that number changes.

Evidence
--------
The number of backwards per step, the number of windows, and whether the optimizer and clipping depend on the gradient
norm.

Use instead
-----------
    (loss / accumulation_steps).backward()

When it is fine
---------------
Not reported: sums divided by a token count, several different losses, a closure, gradients divided by the script. With
Adam and similar optimizers the gradient norm cancels out unless gradients are clipped; without clipping the finding is
only advice.
"""

import ast
from typing import Final

from trueloop.event import Place, Stepped
from trueloop.rules.rule import Findings, Rule, Severity, facts
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["AccumulationNotAveraged"]

ENOUGH: Final = 2  # Windows of equal length: a single one may be a coincidence (a loss called twice)

_SPLITS: Final = ("chunk", "split", "tensor_split", "array_split", "islice", "batched")  # Calls that split a batch


class AccumulationNotAveraged(Rule, code="GRD104", severity=Severity.WARNING):
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._averaging: set[int] = set()  # Optimizers averaged in some window: the loop is meant to average

    def on_stepped(self, event: Stepped) -> Findings:
        length = event.most_at_one_place
        if length < 2 or event.closure or event.place is None or len(event.backward_places) != 1:
            return
        if event.gradients != "new":  # the sum was cleared before the step
            return
        if event.averaged:
            self._averaging.add(event.optimizer)
        if event.optimizer in self._averaging:
            return
        windows = self.count(event.optimizer, event.backward_places[0], length)
        if windows != ENOUGH:
            return
        window = _window(event.backward_places[0], event.place)
        if window is None:
            return
        harmless = event.scale_free and not event.clipped
        effect = (
            f"{event.name} normalizes by the gradient size, so mostly eps, weight decay and logs change"
            if harmless
            else f"the update is {length} times as large as for one batch of that size"
        )
        yield self.finding(
            event,
            f"{event.name} sums the gradients of {length} mean losses per step and nothing divides by {length}: "
            f"{effect}.",
            fix=f"Divide each loss by the number of accumulated batches: `(loss / {window or length}).backward()`.",
            evidence=facts(
                event, "backwards_per_step windows scale_free clipped", backwards_per_step=length, windows=windows
            ),
            place=event.backward_places[0],
            diff=_divided(event.backward_places[0], window, length),
            severity=Severity.ADVICE if harmless else None,
        )


def _window(backward: Place, step: Place) -> str | None:
    """The window length as the user wrote it ('accumulation_steps'), '' if not written; None without a window."""
    source = source_of(backward.path)
    if backward.path != step.path or source.enclosing_function(backward.line) is not source.enclosing_function(
        step.line
    ):
        return None
    inner, outer = source.enclosing_loop(backward.line), source.enclosing_loop(step.line)
    if inner is None:
        return None
    if inner is outer:
        return _written_condition(source, backward.line, step.line)
    inside = inner.lineno <= step.line <= (inner.end_lineno or 0)
    return _written_range(source, inner) if _over_batches(inner) and not inside else None


def _written_condition(source: Source, backward: int, step: int) -> str | None:
    """`k` of `if (i + 1) % k == 0:` around the step, if the backward is outside of it."""
    statement = source.statement(step)
    for parent in source.parents(statement) if statement is not None else ():
        if isinstance(parent, ast.If) and not parent.lineno <= backward <= (parent.end_lineno or 0):
            modulos = [
                node for node in ast.walk(parent.test) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
            ]
            simple = [node.right for node in modulos if isinstance(node.right, (ast.Name, ast.Constant, ast.Attribute))]
            return source.text(simple[0]) if len(simple) == 1 else ""
    return None


def _over_batches(loop: ast.For | ast.While | ast.AsyncFor) -> bool:
    """Does the loop iterate over parts of the data, not over tasks, heads or scales?"""
    if isinstance(loop, ast.While):
        return False
    called = {called_name(call) for call in calls_in(loop.iter)}
    if called & set(_SPLITS):
        return True
    if called != {"range"}:
        return False
    variable = loop.target.id if isinstance(loop.target, ast.Name) else ""
    return not any(_indexed_by(node, variable) for statement in loop.body for node in ast.walk(statement))


def _indexed_by(node: ast.AST, variable: str) -> bool:
    """The loop variable selects something: `heads[k]`, `loss_of(k)`. A slice (`x[k * 8 : k * 8 + 8]`) is data."""
    if isinstance(node, ast.Subscript) and not any(isinstance(inner, ast.Slice) for inner in ast.walk(node.slice)):
        parts: list[ast.AST] = [node.slice]
    elif isinstance(node, ast.Call) and called_name(node) != "print":
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        parts = [part for part in parts if not any(isinstance(inner, ast.Slice) for inner in ast.walk(part))]
    else:
        return False
    return any(isinstance(inner, ast.Name) and inner.id == variable for part in parts for inner in ast.walk(part))


def _written_range(source: Source, loop: ast.For | ast.While | ast.AsyncFor) -> str:
    call = loop.iter if not isinstance(loop, ast.While) else None
    if not isinstance(call, ast.Call) or called_name(call) != "range" or len(call.args) != 1:
        return ""
    return source.text(call.args[0]) if isinstance(call.args[0], (ast.Name, ast.Constant, ast.Attribute)) else ""


def _divided(backward: Place, window: str, length: int) -> str:
    """`loss.backward()` -> `(loss / k).backward()`, if k is written in the source."""
    source = source_of(backward.path)
    loss = source.backward_target(backward.line)
    if not window or not isinstance(loss, ast.Name) or (window.isdigit() and int(window) != length):
        return ""
    text = f"{loss.id} / {window}"
    receiver = isinstance(next(source.parents(loss), None), ast.Attribute)
    return diff(source.path, [source.replacing(loss, f"({text})" if receiver else text)])
