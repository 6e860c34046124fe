"""GRD104 accumulation-not-averaged: the gradients of several batches are summed where their mean is meant.

What it sees
------------
At least twice, the same number of backwards at one line came before a step, each of a loss that is a mean, divided by
nothing; the gradients were not divided either; and the source shows a window of batches: the step is taken only on some
turns of the loop around the backward, or follows an inner loop over batches.

Why it hurts
------------
Four undivided means add up to a gradient four times as long as that of one batch of the same total size: the learning
rate is silently multiplied by the window's length, and changes again whenever that length is tuned.

Evidence
--------
How many backwards came before each step, in how many windows, and whether the optimizer's steps depend on the
gradient's length at all.

Use instead
-----------
    (loss / accumulation_steps).backward()

When it is fine
---------------
Sums that are divided by a count of tokens, several different losses, a closure, and gradients that are divided by hand
are not reported. With Adam and its kin the length cancels out unless gradients are clipped: where they are not, it is
only an advice.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import Place, Stepped
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["AccumulationNotAveraged"]

ENOUGH: Final = 2
"""Windows of equal length: one may be a chance (a loss called twice), two are a habit."""

_SPLITS: Final = ("chunk", "split", "tensor_split", "array_split", "islice", "batched")
"""Calls that cut one batch into several."""


@final
class AccumulationNotAveraged(Rule):
    code = "GRD104"
    name = "accumulation-not-averaged"
    severity = Severity.WARNING
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._windows: dict[tuple[int, Place, int], int] = {}
        self._averages: set[int] = set()
        """Optimizers whose gradients were averaged in some window: that is how this loop is meant."""

    def on_stepped(self, event: Stepped) -> Findings:
        length = event.most_at_one_place
        if length < 2 or event.closure or event.place is None or len(event.backward_places) != 1:
            return
        if event.gradients != "new":  # the sum was thrown away before the step
            return
        if event.averaged:
            self._averages.add(event.optimizer)
        if event.optimizer in self._averages:
            return
        key = (event.optimizer, event.backward_places[0], length)
        windows = self._windows[key] = self._windows.get(key, 0) + 1
        if windows != ENOUGH:
            return
        window = _window(event.backward_places[0], event.place)
        if window is None:
            return
        harmless = event.scale_free and not event.clipped
        effect = (
            f"{event.name} divides by the gradient's length, so it changes little but eps, decay and logs"
            if harmless
            else f"the step is {length} times as long as for one batch of that size"
        )
        yield self.finding(
            event,
            f"{event.name} steps after {length} backwards of undivided means, whose gradients add up: {effect}.",
            fix=f"Divide each loss by the number of batches in the window: (loss / {window or length}).backward().",
            evidence={
                "backwards_per_step": length,
                "windows": windows,
                "scale_free": event.scale_free,
                "clipped": event.clipped,
            },
            place=event.backward_places[0],
            diff=_divided(event.backward_places[0], window, length),
            severity=Severity.ADVICE if harmless else None,
        )


def _window(backward: Place, step: Place) -> str | None:
    """The length of the window as written ('accumulation_steps'), '' where it is not written; None if there is no
    window of batches."""
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
    batches = _over_batches(inner)
    return (
        _written_range(source, inner) if batches and not inner.lineno <= step.line <= (inner.end_lineno or 0) else None
    )


def _written_condition(source: Source, backward: int, step: int) -> str | None:
    """`k` of `if (i + 1) % k == 0:` around the step, where the backward stands outside of it."""
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
    """Does the loop go over parts of the data, rather than over tasks, heads or scales?"""
    if isinstance(loop, ast.While):
        return False
    called = {called_name(call) for call in calls_in(loop.iter)}
    if called & set(_SPLITS):
        return True
    if called != {"range"}:
        return False
    variable = loop.target.id if isinstance(loop.target, ast.Name) else ""
    return not any(_chosen_by(node, variable) for statement in loop.body for node in ast.walk(statement))


def _chosen_by(node: ast.AST, variable: str) -> bool:
    """The loop's variable picks something: `heads[k]`, `loss_of(k)`. A slice (`x[k * 8 : k * 8 + 8]`) is a part of the
    data."""
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
    plain = isinstance(call, ast.Call) and called_name(call) == "range" and len(call.args) == 1
    if (
        not isinstance(call, ast.Call)
        or not plain
        or not isinstance(call.args[0], (ast.Name, ast.Constant, ast.Attribute))
    ):
        return ""
    return source.text(call.args[0])


def _divided(backward: Place, window: str, length: int) -> str:
    """`loss.backward()` -> `(loss / k).backward()`, where k is written in the source."""
    source = source_of(backward.path)
    loss = source.backwarded(backward.line)
    if not window or not isinstance(loss, ast.Name) or (window.isdigit() and int(window) != length):
        return ""
    text = f"{loss.id} / {window}"
    receiver = isinstance(next(source.parents(loss), None), ast.Attribute)
    return diff(source.path, [source.replacing(loss, f"({text})" if receiver else text)])
