"""GRD109 clipped-before-unscale: gradients are clipped while still multiplied by the GradScaler's scale.

What it sees
------------
A clipping function was called on gradients of a scaled loss, and neither `scaler.unscale_(optimizer)` nor anything else
had divided them before. The limit is smaller than the scale, so it was not meant for scaled gradients.

Why it hurts
------------
The scaled gradients are thousands of times larger than those of the step. A limit of 1.0 clips every step, and after
`scaler.step` divides by the scale, the gradient norm is at most 1/65536. The run trains as with a tiny learning rate
that changes with the scale. If the call only reads the norm, the logged norm is multiplied by the scale.

Evidence
--------
The limit, the scale, and the effective limit: limit / scale.

Use instead
-----------
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)

When it is fine
---------------
Not reported: a limit multiplied by `scaler.get_scale()`; a disabled scaler; gradients divided by the script; a norm
divided by the scale before logging. Your own clipping code is not checked: it may not depend on the scale.
"""

import ast
import math
from typing import Final

from trueloop.event import ClippedScaled, Place
from trueloop.rules.rule import Findings, Rule, Severity, facts, statement_at
from trueloop.usercode.rewrite import before, block_of, owns_its_lines
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["ClippedBeforeUnscale"]

ENOUGH: Final = 2  # Clips of scaled gradients on a line: a single one may belong to the start of a run


class ClippedBeforeUnscale(Rule, code="GRD109", severity=Severity.ERROR):
    not_applicable = "no scaled gradients were clipped"

    def on_clipped_scaled(self, event: ClippedScaled) -> Findings:
        reads = math.isinf(event.limit)
        if event.scale <= 1 or (event.limit >= event.scale and not reads) or (reads and _divides(event.place)):
            return
        if self.count(event.place) != ENOUGH:
            return
        real = event.limit / event.scale
        yield self.finding(
            event,
            f"`{event.function}` reads the norm of gradients still multiplied by the loss scale {event.scale:g}."
            if reads
            else f"`{event.function}` clips to {event.limit:g} while gradients are still multiplied by the loss scale "
            f"{event.scale:g}: the effective limit is {real:.2g}.",
            fix=f"Call `scaler.unscale_(optimizer)` between `backward()` and `{event.function}`.",
            evidence=facts(
                event,
                "function limit scale effective_limit backward=backward_place",
                limit="inf" if math.isinf(event.limit) else event.limit,
                effective_limit=None if reads else real,
            ),
            severity=Severity.WARNING if reads else None,
            diff=_unscaled_first(event.place),
        )


def _divides(place: Place | None) -> bool:
    """The user's function reads the scale: it does not log the scaled norm."""
    if place is None:
        return False
    source = source_of(place.path)
    around = source.enclosing_function(place.line) or source.tree
    return any(called_name(call) == "get_scale" for call in calls_in(around))


def _unscaled_first(place: Place | None) -> str:
    """`scaler.unscale_(optimizer)` before the clip, if `scaler.step(optimizer)` follows in the same block."""
    source, clip = statement_at(place)
    if not isinstance(clip, (ast.Expr, ast.Assign)) or not owns_its_lines(source, clip):
        return ""
    block = block_of(source, clip)
    following = block[block.index(clip) + 1 :] if block else []
    steps = [names for statement in following if (names := _scaler_step(source, statement))]
    if len(steps) != 1:
        return ""
    scaler, optimizer = steps[0]
    around = source.enclosing_function(clip.lineno) or source.tree
    if any(called_name(call) == "unscale_" for call in calls_in(around)):
        return ""
    return diff(source.path, [before(source, clip, f"{scaler}.unscale_({optimizer})")])


def _scaler_step(source: Source, statement: ast.stmt) -> tuple[str, str] | None:
    """(scaler, optimizer) of `scaler.step(optimizer)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return None
    plain = len(call.args) == 1 and not call.keywords and isinstance(call.args[0], (ast.Name, ast.Attribute))
    return (source.text(call.func.value), source.text(call.args[0])) if plain else None
