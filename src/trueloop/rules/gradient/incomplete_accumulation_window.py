"""GRD105 incomplete-accumulation-window: the last batches of each pass make no full window, and their gradients are lost or leak
into the next one.

What it sees
------------
Several backwards come before each step, the same number in most windows; a pass over the loader ends in the middle of a
window. Then either the gradients of those batches are reset before any step, or the first step of the next pass takes
them on top of a full window (seen twice), or the run ends after a complete pass without a step for them.

Why it hurts
------------
The last batches of a pass are computed and thrown away: with a fixed order they are never learnt from at all. Where
they leak into the next pass, its first step is longer than all others and mixes gradients of weights that no longer
exist.

Evidence
--------
The usual length of a window, how many batches were left over, what became of them, and how often.

Use instead
-----------
    if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()

The last window is then shorter; divide its losses by its own length if they are divided.

When it is fine
---------------
Loaders whose length is a multiple of the window, and windows that run on over the end of a pass (counted through the
whole run, so that each step still takes as many batches as any other) are not reported. Nor are runs that are cut
short, a pass that is left early at the run's end, windows with a loss that is no number, closures, loops with several
optimizers, and data that no DataLoader yields."""

from __future__ import annotations

import ast
from collections import Counter
from math import isfinite
from typing import Final, Literal, final

from trueloop.event import Backward, EpochStarted, Place, RunEnded, Stepped
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, diff, source_of

__all__ = ["IncompleteAccumulationWindow"]

HABIT: Final = 2
"""Windows of one length before it is the usual one."""
TIMES: Final[dict[str, int]] = {"dropped": 1, "mixed": 2, "unused": 1}
"""How often it must be seen: what is thrown away is thrown away, but one long window may be a chance."""

Fate = Literal["dropped", "mixed", "unused"]


@final
class IncompleteAccumulationWindow(Rule):
    code = "GRD105"
    name = "incomplete-accumulation-window"
    severity = Severity.WARNING
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._optimizers: set[int] = set()
        self._lengths: Counter[int] = Counter()
        """Windows by the number of their backwards in one pass."""
        self._seen: Counter[Place] = Counter()
        """Backwards since the last step, by their line."""
        self._at_start: Counter[Place] | None = None
        """The same, as of the latest start of a pass since that step."""
        self._in_pass: Counter[Place] = Counter()
        self._batches: int | None = None
        """How many the loader of this pass says it has."""
        self._last_pass: tuple[Counter[Place], int | None] = (Counter(), None)
        """The latest pass that had backwards and is over."""
        self._next_step = 0
        self._blind = False
        """Something went by unseen, or was no number, since the last step."""
        self._last: Stepped | None = None
        self._fates: Counter[tuple[Fate, int]] = Counter()

    # -- facts --

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._check(event.step)
        if self._in_pass:
            self._last_pass = (self._in_pass, self._batches)
        self._at_start = Counter(self._seen)
        self._in_pass, self._batches = Counter(), event.batches

    def on_backward(self, event: Backward) -> None:
        self._check(event.step)
        if event.place is not None:
            self._seen[event.place] += 1
            self._in_pass[event.place] += 1
        self._blind |= event.inside_step or (event.loss is not None and not isfinite(event.loss))

    def on_stepped(self, event: Stepped) -> Findings:
        self._check(event.step)
        self._optimizers.add(event.optimizer)
        usable = event.gradients == "new" and not event.closure and len(event.backward_places) == 1
        if usable and not self._blind and len(self._optimizers) == 1:
            yield from self._window(event, event.backward_places[0])
        self._last = event if usable else None
        self._seen.clear()
        self._at_start, self._blind, self._next_step = None, False, event.step + 1

    def on_run_ended(self, event: RunEnded) -> Findings:
        step, usual = self._last, self._usual()
        if step is None or event.reason != "finished" or self._blind or event.step != self._next_step:
            return
        line = step.backward_places[0]
        counts, batches = (self._in_pass, self._batches) if self._in_pass[line] else self._last_pass
        whole = batches is not None and counts[line] >= batches
        if whole and 0 < self._seen[line] < usual:
            yield from self._count("unused", self._seen[line], step)

    def why_not_checked(self) -> str:
        return "" if self._usual() > 1 else "no step took the gradients of several batches"

    def _check(self, step: int) -> None:
        """Steps that nobody saw were taken: what was counted belongs to them."""
        if step != self._next_step and not self._blind:
            self._blind = True
            self._seen.clear()

    # -- judgement --

    def _usual(self) -> int:
        """The usual length of a window; 0 before there is one."""
        length, times = max(self._lengths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        return length if times >= HABIT else 0

    def _window(self, event: Stepped, line: Place) -> Findings:
        used, made = event.most_at_one_place, self._seen[line]
        left = 0 if self._at_start is None else self._at_start[line]
        thrown_away = made - used == left
        self._lengths[used if thrown_away else used - left] += 1
        usual = self._usual()
        if not 0 < left < usual:
            return
        if thrown_away:
            yield from self._count("dropped", left, event)
        elif made == used == left + usual:
            yield from self._count("mixed", left, event)

    def _count(self, fate: Fate, left: int, event: Stepped) -> Findings:
        self._fates[fate, left] += 1
        if len(self._optimizers) == 1 and self._fates[fate, left] >= TIMES[fate]:
            yield self._say(fate, left, event)

    def _say(self, fate: Fate, left: int, event: Stepped) -> Finding:
        usual = self._usual()
        became = {
            "dropped": "were cleared before any step",
            "mixed": f"went into the first step of the next pass, on top of its own {usual}",
            "unused": "were still unused when the run ended",
        }[fate]
        rest = (
            "the last batch of a pass fills no window: its"
            if left == 1
            else f"the last {left} batches of a pass fill no window: their"
        )
        place, patch = _condition(event)
        return self.finding(
            event,
            f"{event.name} steps after every {usual} backwards, and {rest} gradients {became}.",
            fix="Step after the last batch of a pass too, however short its window is.",
            evidence={
                "window": usual,
                "left_over": left,
                "fate": fate,
                "seen": self._fates[fate, left],
                "step_taken": event.step,
            },
            place=place,
            diff=patch,
        )


# -- the condition around the step --


def _condition(event: Stepped) -> tuple[Place | None, str]:
    """The line of `if (i + 1) % k == 0:` around the step, or the step's own; and the diff that adds the end of the
    loader to it."""
    place = event.place
    if place is None or event.backward_places[0].path != place.path:
        return place, ""
    source = source_of(place.path)
    statement = source.statement(place.line)
    for parent in source.parents(statement) if statement is not None else ():
        if isinstance(parent, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)):
            return place, ""
        if isinstance(parent, ast.If) and not parent.lineno <= event.backward_places[0].line <= (
            parent.end_lineno or 0
        ):
            return Place(place.path, parent.lineno, place.function), _with_the_end(source, parent)
    return place, ""


def _with_the_end(source: Source, condition: ast.If) -> str:
    """`if (i + 1) % k == 0:` -> `if (i + 1) % k == 0 or i + 1 == len(loader):`, in a loop over `enumerate(loader)`."""
    loop = next((parent for parent in source.parents(condition) if isinstance(parent, (ast.For, ast.While))), None)
    if not isinstance(loop, ast.For) or not _is_every_kth(condition.test):
        return ""
    call, target = loop.iter, loop.target
    if not isinstance(call, ast.Call) or called_name(call) != "enumerate" or not isinstance(target, ast.Tuple):
        return ""
    start = [*call.args[1:], *(word.value for word in call.keywords)]
    first = start[0].value if start and isinstance(start[0], ast.Constant) else 0 if not start else None
    index = target.elts[0]
    if (
        first not in (0, 1)
        or not isinstance(index, ast.Name)
        or not isinstance(call.args[0], (ast.Name, ast.Attribute))
    ):
        return ""
    names = {node.id for node in ast.walk(condition.test) if isinstance(node, ast.Name)}
    if index.id not in names:  # it counts something else
        return ""
    last = f"{index.id} + 1" if first == 0 else index.id
    text = f"{source.text(condition.test)} or {last} == len({source.text(call.args[0])})"
    return diff(source.path, [source.replacing(condition.test, text)])


def _is_every_kth(test: ast.expr) -> bool:
    """`… % k == 0`, or `not … % k`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, ast.BinOp) and isinstance(test.operand.op, ast.Mod)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    return isinstance(test.left, ast.BinOp) and isinstance(test.left.op, ast.Mod)
