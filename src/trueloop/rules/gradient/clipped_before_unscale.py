"""GRD109 clipped-before-unscale: gradients are clipped while they still carry the GradScaler's factor.

What it sees
------------
A clipping function was given gradients that a scaled loss had made, and neither `scaler.unscale_(optimizer)` nor
anything else had touched them since. The limit is smaller than the scale, so it was not meant for scaled gradients.

Why it hurts
------------
The gradients are thousands of times as long as they will be in the step. A limit of 1 therefore clips every step, and
after the scaler has divided, what is left of the gradient is 1/65536 long: the run learns as if at a tiny learning rate
that jumps with the scale. Where the call only reads the norm, the log shows the scale.

Evidence
--------
The limit, the scale at that moment, and the limit that the step really had: the one divided by the other.

Use instead
-----------
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)

When it is fine
---------------
A limit multiplied by `scaler.get_scale()`; a scaler that is switched off; gradients divided by hand; a norm that is
divided by the scale before it is logged. Clipping written by hand is not judged: what it does to the gradients may not
depend on their scale.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from typing import Final, final

from trueloop.event import ClippedScaled, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import before, block_of, owns_its_lines
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["ClippedBeforeUnscale"]

ENOUGH: Final = 2
"""Clips of scaled gradients at a place: one may belong to a run's beginning."""


@final
class ClippedBeforeUnscale(Rule):
    code = "GRD109"
    name = "clipped-before-unscale"
    severity = Severity.ERROR
    not_applicable = "no scaled gradients were clipped"

    def __init__(self) -> None:
        self._clips: Counter[Place | None] = Counter()

    def on_clipped_scaled(self, event: ClippedScaled) -> Findings:
        reads = math.isinf(event.limit)
        if event.scale <= 1 or (event.limit >= event.scale and not reads) or (reads and _divides(event.place)):
            return
        self._clips[event.place] += 1
        if self._clips[event.place] != ENOUGH:
            return
        real = event.limit / event.scale
        yield self.finding(
            event,
            f"{event.function} reads the norm of gradients that are {event.scale:g} times too long: they have not been unscaled."
            if reads
            else f"{event.function} limits gradients to {event.limit:g} that are {event.scale:g} times too long: "
            f"after the scaler's division the limit is {real:.2g}.",
            fix="Call scaler.unscale_(optimizer) between backward and the clip.",
            evidence={
                "function": event.function,
                "limit": "inf" if math.isinf(event.limit) else event.limit,
                "scale": event.scale,
                "limit_in_the_step": None if reads else real,
                "backward": f"{event.backward_place.path}:{event.backward_place.line}"
                if event.backward_place
                else None,
            },
            severity=Severity.WARNING if reads else None,
            diff=_unscaled_first(event.place),
        )


def _divides(place: Place | None) -> bool:
    """The user's function knows of the scale: the norm it reads is not logged as it is."""
    if place is None:
        return False
    source = source_of(place.path)
    around = source.enclosing_function(place.line) or source.tree
    return any(called_name(call) == "get_scale" for call in calls_in(around))


def _unscaled_first(place: Place | None) -> str:
    """`scaler.unscale_(optimizer)` before the clip, where `scaler.step(optimizer)` follows in the same block."""
    if place is None:
        return ""
    source = source_of(place.path)
    clip = source.statement(place.line)
    if clip is None or not isinstance(clip, (ast.Expr, ast.Assign)) or not owns_its_lines(source, clip):
        return ""
    block = block_of(source, clip)
    steps = (
        [named for statement in block[block.index(clip) + 1 :] if (named := _scaler_step(source, statement))]
        if block
        else []
    )
    if len(steps) != 1:
        return ""
    scaler, optimizer = steps[0]
    around = source.enclosing_function(place.line) or source.tree
    if any(called_name(call) == "unscale_" for call in calls_in(around)):
        return ""
    return diff(place.path, [before(source, clip, f"{scaler}.unscale_({optimizer})")])


def _scaler_step(source: Source, statement: ast.stmt) -> tuple[str, str] | None:
    """(scaler, optimizer) of `scaler.step(optimizer)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return None
    plain = len(call.args) == 1 and not call.keywords and isinstance(call.args[0], (ast.Name, ast.Attribute))
    return (source.text(call.func.value), source.text(call.args[0])) if plain else None
