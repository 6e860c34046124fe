"""PRC103 backward-under-autocast: `backward()` is called inside the autocast context.

What it sees
------------
An autocast context for the device of the loss was open when `backward()` started.

Why it hurts
------------
Autocast is for the forward; the backward of each operation uses the dtype of its forward. Inside the context, Python
code of the backward (hooks, custom autograd functions, double backward) is cast again, and so is everything else in
it: gradient clipping, the optimizer step, metrics.

Evidence
--------
The dtype and the device of the context.

Use instead
-----------
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()                                  # outside

When it is fine
---------------
Not reported: a disabled context (`torch.autocast(..., enabled=False)`), and a context for a different device type.
"""

import ast
from typing import Final

from trueloop.event import BackwardDtypes, Place
from trueloop.rules.rule import Findings, Rule, Severity, statement_at
from trueloop.usercode.rewrite import owns_its_lines
from trueloop.usercode.source import Edit, Source, called_name, diff

__all__ = ["BackwardUnderAutocast"]

ENOUGH: Final = 2  # Backwards in a context: the first one may be a warmup


class BackwardUnderAutocast(Rule, code="PRC103", severity=Severity.ADVICE):
    not_applicable = "no backward was seen"

    def on_backward_dtypes(self, event: BackwardDtypes) -> Findings:
        if event.autocast and self.count(event.place) == ENOUGH:
            yield self.finding(
                event,
                f"`backward()` is called inside {event.autocast} autocast on {event.device}, which is for the forward "
                "only.",
                fix="Close the autocast context after the loss, and call `loss.backward()` outside.",
                evidence={"autocast": event.autocast, "device": event.device},
                diff=_outside(event.place),
            )


def _outside(place: Place | None) -> str:
    """Moves the backward and the following statements out of a `with` that opens only autocast."""
    source, statement = statement_at(place)
    context = None if statement is None else next(source.parents(statement), None)
    if statement is None or not isinstance(context, ast.With) or statement not in context.body[1:]:
        return ""
    moved = context.body[context.body.index(statement) :]
    if not _is_autocast(context) or not all(_is_simple(source, one) for one in moved):
        return ""
    first, last = statement.lineno, moved[-1].end_lineno or moved[-1].lineno
    inner, outer = source.indent(first), source.indent(context.lineno)
    lines = [line.rstrip("\n") for line in source.lines[first - 1 : last]]
    dedented = tuple(outer + line.removeprefix(inner) if line.strip() else line for line in lines)
    return diff(source.path, [Edit(first, last, dedented)])


def _is_autocast(context: ast.With) -> bool:
    """Only autocast: another context (no_sync, a profiler) may be meant for the backward too."""
    opened = context.items[0].context_expr
    return len(context.items) == 1 and isinstance(opened, ast.Call) and "autocast" in called_name(opened)


def _is_simple(source: Source, statement: ast.stmt) -> bool:
    """It shares no line with another statement, and no string spans several lines."""
    texts = (node for node in ast.walk(statement) if isinstance(node, (ast.Constant, ast.JoinedStr)))
    return owns_its_lines(source, statement) and all(node.lineno == node.end_lineno for node in texts)
