"""GRD105 incomplete-accumulation-window: the last batches of an epoch do not fill an accumulation window.

What it sees
------------
Several backwards run before each step, the same number in most windows, and a pass over the loader ends in the middle
of a window. Then the gradients of those batches are cleared before any step, or the first step of the next epoch adds
them to its own full window (seen twice), or the run ends after a complete pass without a step for them.

Why it hurts
------------
The last batches of each epoch are computed and discarded; with a fixed order the model never learns from them. If they
leak into the next epoch, its first step is larger than all others and uses gradients of old weights.

Evidence
--------
The usual window length, the number of leftover batches, what happened to their gradients, and how often.

Use instead
-----------
    if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()

The last window is then shorter. If losses are divided, divide those of the last window by its own length.

When it is fine
---------------
Not reported: loaders whose length is a multiple of the window; windows that continue into the next epoch (a counter
over the run, so that each step uses the same number of batches); runs that stop early; an incomplete last epoch;
windows with a NaN or Inf loss; closures; loops with several optimizers; data without a DataLoader.
"""

import ast
from collections import Counter
from math import isfinite
from typing import Final, Literal

from trueloop.event import Backward, EpochStarted, Place, RunEnded, Stepped
from trueloop.rules.rule import Finding, Findings, Rule, Severity, plural
from trueloop.usercode.source import Source, called_name, diff, source_of

__all__ = ["IncompleteAccumulationWindow"]

HABIT: Final = 2  # Windows of one length before it counts as the usual length
TIMES: Final[dict[str, int]] = {"dropped": 1, "mixed": 2, "unused": 1}
"""How often it must happen: one long window may be a coincidence, a discarded one is not."""

Fate = Literal["dropped", "mixed", "unused"]


class IncompleteAccumulationWindow(Rule, code="GRD105", severity=Severity.WARNING):
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._optimizers: set[int] = set()
        self._lengths: Counter[int] = Counter()  # Number of windows by their number of backwards in one pass
        self._seen: Counter[Place] = Counter()  # Backwards since the last step, by line
        self._at_start: Counter[Place] | None = None  # The same at the latest start of a pass since that step
        self._in_pass: Counter[Place] = Counter()
        self._batches: int | None = None  # The length of the loader of this pass
        self._last_pass: tuple[Counter[Place], int | None] = (Counter(), None)
        """The latest completed pass with backwards."""
        self._next_step = 0
        self._blind = False  # Since the last step, something was not observed or a loss was NaN or Inf
        self._last: Stepped | None = None
        self._fates: Counter[tuple[Fate, int]] = Counter()

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
        complete = batches is not None and counts[line] >= batches
        if complete and 0 < self._seen[line] < usual:
            yield from self._count("unused", self._seen[line], step)

    def why_not_checked(self) -> str:
        return "" if self._usual() > 1 else "no step used the gradients of several batches"

    def _check(self, step: int) -> None:
        """Steps were taken that were not observed: the counted backwards belong to them."""
        if step != self._next_step and not self._blind:
            self._blind = True
            self._seen.clear()

    def _usual(self) -> int:
        """The usual window length; 0 while unknown."""
        length, times = max(self._lengths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        return length if times >= HABIT else 0

    def _window(self, event: Stepped, line: Place) -> Findings:
        used, made = event.most_at_one_place, self._seen[line]
        left = 0 if self._at_start is None else self._at_start[line]
        discarded = made - used == left
        self._lengths[used if discarded else used - left] += 1
        usual = self._usual()
        if not 0 < left < usual:
            return
        if discarded:
            yield from self._count("dropped", left, event)
        elif made == used == left + usual:
            yield from self._count("mixed", left, event)

    def _count(self, fate: Fate, left: int, event: Stepped) -> Findings:
        self._fates[fate, left] += 1
        if len(self._optimizers) == 1 and self._fates[fate, left] >= TIMES[fate]:
            yield self._report(fate, left, event)

    def _report(self, fate: Fate, left: int, event: Stepped) -> Finding:
        usual = self._usual()
        became = {
            "dropped": "were cleared before any step",
            "mixed": f"leaked into the first step of the next epoch, on top of its own {usual}",
            "unused": "were never used before the run ended",
        }[fate]
        place, patch = _condition(event)
        return self.finding(
            event,
            f"{event.name} steps every {usual} batches. The gradients of the last {plural(left, 'batch')} of an epoch "
            f"{became}.",
            fix="Also step after the last batch: `if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):`.",
            evidence={
                "window": usual,
                "leftover_batches": left,
                "fate": fate,
                "times": self._fates[fate, left],
                "step": event.step,
            },
            place=place,
            diff=patch,
        )


def _condition(event: Stepped) -> tuple[Place | None, str]:
    """The line of `if (i + 1) % k == 0:` around the step (else the step's), and the diff that adds the loader's end."""
    place = event.place
    if place is None or event.backward_places[0].path != place.path:
        return place, ""
    source = source_of(place.path)
    statement = source.statement(place.line)
    for parent in source.parents(statement) if statement is not None else ():
        if isinstance(parent, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)):
            return place, ""
        last = getattr(parent, "end_lineno", None) or 0
        if isinstance(parent, ast.If) and not parent.lineno <= event.backward_places[0].line <= last:
            return Place(place.path, parent.lineno, place.function), _or_at_the_end(source, parent)
    return place, ""


def _or_at_the_end(source: Source, condition: ast.If) -> str:
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
    loader = call.args[0]
    if first not in (0, 1) or not isinstance(index, ast.Name) or not isinstance(loader, (ast.Name, ast.Attribute)):
        return ""
    names = {node.id for node in ast.walk(condition.test) if isinstance(node, ast.Name)}
    if index.id not in names:  # it counts something else
        return ""
    last = f"{index.id} + 1" if first == 0 else index.id
    text = f"{source.text(condition.test)} or {last} == len({source.text(loader)})"
    return diff(source.path, [source.replacing(condition.test, text)])


def _is_every_kth(test: ast.expr) -> bool:
    """`… % k == 0`, or `not … % k`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, ast.BinOp) and isinstance(test.operand.op, ast.Mod)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    return isinstance(test.left, ast.BinOp) and isinstance(test.left.op, ast.Mod)
