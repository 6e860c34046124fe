"""GRD108 clipped-after-step: gradients are clipped after the optimizer step that used them.

What it sees
------------
A clipping function ran after an optimizer had used the gradients (or after they were cleared), and no backward had
computed new ones: the call stands below `step()`, or above `backward()`. No call on that line ever clipped gradients
before a step.

Why it hurts
------------
The step uses the unclipped gradients; clipping afterwards has no effect. A single batch with exploding gradients can
destroy the weights in a run that seems to be protected.

Evidence
--------
The clipping function and its limit, how often it ran too late, and the line of the step.

Use instead
-----------
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

When it is fine
---------------
A call with an infinite limit only reads the gradient norm and may be anywhere.
"""

import ast
from typing import Final

from trueloop.event import Clipped, Place
from trueloop.rules.rule import Findings, Rule, Severity, facts, on_line
from trueloop.usercode.rewrite import block_of, owns_its_lines, sole_call
from trueloop.usercode.source import Edit, diff, source_of

__all__ = ["ClippedAfterStep"]

ENOUGH: Final = 2  # Late clips: a single one may belong to the start or the end of a run
NO_LIMIT: Final = 1e6  # A limit this large clips nothing: the call only reads the norm


class ClippedAfterStep(Rule, code="GRD108", severity=Severity.ERROR):
    not_applicable = "no gradients were clipped"

    def __init__(self) -> None:
        self._late: dict[Place | None, set[int]] = {}  # By place: the steps after which it ran too late
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
        step, place = event.step_place, event.place
        when = "before `backward()` has computed gradients for" if _is_above(place, step) else "after"
        used = "" if when != "after" else " has used the gradients"
        yield self.finding(
            event,
            f"`{event.function}` clips to {event.limit:g} {when} `step()`{on_line(step, place)}{used}: every step so "
            "far was unclipped.",
            fix=f"Move `{event.function}` between `loss.backward()` and `optimizer.step()`.",
            evidence=facts(event, "function limit", late_clips=len(late), step=step),
            diff=_moved_up(event.place, step),
        )


def _is_above(clip: Place | None, step: Place | None) -> bool:
    """In one loop, the clip comes first."""
    if clip is None or step is None or (clip.path, clip.function) != (step.path, step.function):
        return False
    source = source_of(clip.path)
    same = source.enclosing_loop(clip.line) is source.enclosing_loop(step.line)
    return same and clip.line < step.line


def _moved_up(clip: Place | None, step: Place | None) -> str:
    """Moves the clip before the step, if both are simple statements of one block."""
    if clip is None or step is None or clip.path != step.path:
        return ""
    source = source_of(clip.path)
    late, stepped = source.statement(clip.line), sole_call(source, step, "step")
    if not isinstance(late, ast.Expr) or not owns_its_lines(source, late) or stepped is None:
        return ""
    used = stepped[0]
    scaled = isinstance(used.value, ast.Call) and used.value.args  # scaler.step(optimizer) unscales inside
    if scaled or used.lineno >= late.lineno or late not in block_of(source, used):
        return ""
    lines = tuple(line.rstrip("\n") for line in source.lines[late.lineno - 1 : late.end_lineno])
    removal = Edit(late.lineno, late.end_lineno or late.lineno, ())
    return diff(clip.path, [Edit(used.lineno, used.lineno - 1, lines), removal])
