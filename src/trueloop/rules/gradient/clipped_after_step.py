"""GRD108 clipped-after-step: gradients are clipped after the step that has used them.

What it sees
------------
A clipping function was called when an optimizer had used the gradients already (or they had been reset since) and no
backward had brought new ones. No clip at that line ever met gradients that a step was still to use.

Why it hurts
------------
The step takes the gradients as they are, however long; the clip then shortens what nobody reads any more. The one batch
in a thousand whose gradient explodes destroys the weights, in a run whose author has every reason to believe it
protected.

Evidence
--------
The clipping function and its limit, how often it came too late, and the line of the step.

Use instead
-----------
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

When it is fine
---------------
A clip with an infinite limit only reads the norm, and may stand anywhere.
"""

from __future__ import annotations

import ast
from typing import Final, final

from trueloop.event import Clipped, Place
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import block_of, owns_its_lines, sole_call
from trueloop.usercode.source import Edit, diff, source_of

__all__ = ["ClippedAfterStep"]

ENOUGH: Final = 2
"""Steps after which the clip came too late: one may belong to a run's end or beginning."""
NO_LIMIT: Final = 1e6
"""A limit from here on clips nothing: the call is there to read the norm."""


@final
class ClippedAfterStep(Rule):
    code = "GRD108"
    name = "clipped-after-step"
    severity = Severity.ERROR
    not_applicable = "nothing was clipped"

    def __init__(self) -> None:
        self._late: dict[Place | None, set[int]] = {}
        """Per place: the steps after which it came too late."""
        self._useful: set[Place | None] = set()

    def on_clipped(self, event: Clipped) -> Findings:
        if event.limit >= NO_LIMIT:
            return
        if not event.stale:
            self._useful.add(event.place)
            return
        late = self._late.setdefault(event.place, set())
        late.add(event.step)
        if len(late) != ENOUGH or event.place in self._useful:
            return
        step = event.step_place
        where = f" of line {step.line}" if step else ""
        yield self.finding(
            event,
            f"{event.function} limits gradients to {event.limit:g} that the step{where} has used already: every step so far ran unclipped.",
            fix="Clip between backward and step.",
            evidence={
                "function": event.function,
                "limit": event.limit,
                "late_clips": len(late),
                "step": f"{step.path}:{step.line}" if step else None,
            },
            diff=_moved_up(event.place, step),
        )


def _moved_up(clip: Place | None, step: Place | None) -> str:
    """The clip's line before the step's, when both are simple statements of one block."""
    if clip is None or step is None or clip.path != step.path:
        return ""
    source = source_of(clip.path)
    late, stepped = source.statement(clip.line), sole_call(source, step, "step")
    if not isinstance(late, ast.Expr) or not owns_its_lines(source, late) or stepped is None:
        return ""
    used = stepped[0]
    scaled = (
        isinstance(used.value, ast.Call) and used.value.args
    )  # scaler.step(optimizer): the gradients are not unscaled before it
    if scaled or used.lineno >= late.lineno or late not in block_of(source, used):
        return ""
    lines = tuple(line.rstrip("\n") for line in source.lines[late.lineno - 1 : late.end_lineno])
    return diff(
        clip.path,
        [Edit(used.lineno, used.lineno - 1, lines), Edit(late.lineno, late.end_lineno or late.lineno, ())],
    )
