"""PRC103 backward-under-autocast: backward is called inside the autocast region.

What it sees
------------
When backward began, an autocast region was open for the device that the loss lies on.

Why it hurts
------------
Autocast is for the forward: the backward of each operation runs in the format of its forward by itself. With the region
still open, what the backward calls in Python (hooks, functions with a backward of their own, gradients of gradients) is
cast once more, and so is everything that follows in the region: the clip, the step, the metrics.

Evidence
--------
The format and the device of the region, and how often backward was called in it.

Use instead
-----------
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()                                  # outside

When it is fine
---------------
A region that is switched off: `torch.autocast(..., enabled=False)`; a region for another kind of device.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Final, final

from trueloop.event import BackwardDtypes, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import owns_its_lines
from trueloop.usercode.source import Edit, Source, called_name, diff, source_of

__all__ = ["BackwardUnderAutocast"]

ENOUGH: Final = 2
"""Backwards in a region: the first may be a warm-up of the user's."""


@final
class BackwardUnderAutocast(Rule):
    code = "PRC103"
    name = "backward-under-autocast"
    severity = Severity.ADVICE
    not_applicable = "no backward was seen"

    def __init__(self) -> None:
        self._inside: Counter[Place | None] = Counter()

    def on_backward_dtypes(self, event: BackwardDtypes) -> Findings:
        if not event.autocast:
            return
        self._inside[event.place] += 1
        if self._inside[event.place] == ENOUGH:
            yield self.finding(
                event,
                f"backward is called inside the region of {event.autocast} autocast on {event.device}, which is for the forward alone.",
                fix="End the autocast region when the loss is computed, and call backward after it.",
                evidence={"autocast": event.autocast, "device": event.device},
                diff=_after_the_region(event.place),
            )


def _after_the_region(place: Place | None) -> str:
    """The backward and what follows it, taken out of a `with` that opens nothing but the region."""
    if place is None:
        return ""
    source = source_of(place.path)
    statement = source.statement(place.line)
    region = None if statement is None else next(source.parents(statement), None)
    if (
        statement is None
        or not isinstance(region, ast.With)
        or statement not in region.body[1:]
        or not _is_autocast(region)
    ):
        return ""
    moved = region.body[region.body.index(statement) :]
    if not all(_is_simple(source, one) for one in moved):
        return ""
    first, last = statement.lineno, moved[-1].end_lineno or moved[-1].lineno
    inner, outer = source.indent(first), source.indent(region.lineno)
    lines = [line.rstrip("\n") for line in source.lines[first - 1 : last]]
    return diff(
        place.path,
        [Edit(first, last, tuple(outer + line.removeprefix(inner) if line.strip() else line for line in lines))],
    )


def _is_autocast(region: ast.With) -> bool:
    """Alone: another context (no_sync, a profiler) may be meant for the backward too."""
    opened = region.items[0].context_expr
    return len(region.items) == 1 and isinstance(opened, ast.Call) and "autocast" in called_name(opened)


def _is_simple(source: Source, statement: ast.stmt) -> bool:
    """Its lines are its own, begin with its indentation, and no text of the user's runs over several of them."""
    texts = (node for node in ast.walk(statement) if isinstance(node, (ast.Constant, ast.JoinedStr)))
    return owns_its_lines(source, statement) and all(node.lineno == node.end_lineno for node in texts)
