"""OPT109 plateau-wrong-mode-or-metric: ReduceLROnPlateau gets the wrong mode, or a value that is not a metric.

What it sees
------------
The values passed to `ReduceLROnPlateau.step()` and their names in the source: an accuracy (or F1, AUC, recall ...) that
rises with `mode="min"`; a loss or an error that falls with `mode="max"`; the epoch or step number; a value that is
never recomputed.

Why it hurts
------------
In the wrong mode every improvement counts as a bad epoch: after `patience` epochs the learning rate is cut, again and
again, while training goes well. A counter or a constant has the same effect, whatever the model does.

Evidence
--------
The mode, the first and last values, how they are written in the source, and the first and last learning rates.

Use instead
-----------
    scheduler = ReduceLROnPlateau(optimizer, mode="max")     # for an accuracy
    scheduler.step(val_accuracy)

When it is fine
---------------
A validation loss that rises with `mode="min"` is what the scheduler is for, so the trend counts only if the name says
what the value is. Not reported: negated names (`-accuracy`, `1 - accuracy`, `neg_loss`), an accuracy that happens to
stay constant, and fewer than four values.
"""

import ast
import re
from fractions import Fraction
from itertools import pairwise
from math import isfinite
from typing import Final

from trueloop.event import Place, PlateauStepped, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.usercode.names import DIRECTION_WORDS, better_by_name
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["PlateauWrongModeOrMetric"]

ENOUGH: Final = 4  # Values needed to see their trend
COUNTED: Final = 6  # Consecutive integers, from 0 or 1, that are a counter whatever their name: no hit count grows so
KEPT: Final = 500  # Values kept per scheduler, from the first

_COUNTERS: Final = (
    "epoch", "epochs", "step", "steps", "iteration", "iterations", "iter", "it", "i", "idx", "index", "batch",
    "batches", "round",
)  # fmt: skip
"""Words in the names of counters."""


class _History:
    """The values passed to one scheduler."""

    def __init__(self, event: PlateauStepped) -> None:
        self.first = self.last = event
        self.values: list[float] = []
        self.all_integers = True
        self.moved = 0  # Values before which the optimizer took steps
        self.reported = False

    def add(self, event: PlateauStepped) -> None:
        self.moved += event.optimizer_steps > self.last.optimizer_steps
        self.last = event
        self.all_integers = self.all_integers and event.is_int
        if len(self.values) < KEPT:
            self.values.append(event.value)

    @property
    def reduced(self) -> bool:
        return self.last.learning_rates < self.first.learning_rates

    def trends(self, way: int) -> bool:
        """Up (1) or down (-1): overall, and in more steps that way than the other."""
        steps = [way * (later - earlier) for earlier, later in pairwise(self.values)]
        return len(self.values) >= ENOUGH and sum(steps) > 0 and sum(s > 0 for s in steps) > sum(s < 0 for s in steps)

    def counts(self) -> bool:
        """Integers with equal positive gaps."""
        gaps = {later - earlier for earlier, later in pairwise(self.values)}
        return len(self.values) >= ENOUGH and self.all_integers and len(gaps) == 1 and min(gaps) >= 1

    def is_constant(self) -> bool:
        """The same value each time, while the weights moved, for longer than the patience."""
        calls = max(ENOUGH, self.last.patience + 2)
        return len(self.values) >= calls and self.moved >= calls - 2 and len(set(self.values)) == 1


class PlateauWrongModeOrMetric(Rule, code="OPT109", severity=Severity.ERROR):
    not_applicable = "no ReduceLROnPlateau was stepped"
    explained_by = ("optimizer-holds-old-parameters", "step-without-gradient")

    def __init__(self) -> None:
        self._histories: dict[int, _History] = {}

    def on_plateau_stepped(self, event: PlateauStepped) -> Findings:
        history = self._histories.setdefault(event.schedule, _History(event))
        cut = event.learning_rates < history.last.learning_rates
        history.add(event)
        if cut:  # the harm is done; otherwise check at the end of the run
            yield from self._check(history)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for history in self._histories.values():
            yield from self._check(history)

    def why_not_checked(self) -> str:
        longest = max((len(history.values) for history in self._histories.values()), default=0)
        return "" if longest >= ENOUGH else f"ReduceLROnPlateau got fewer than {ENOUGH} values"

    def _check(self, history: _History) -> Findings:
        if history.reported or len(history.values) < ENOUGH:
            return
        finding = self._mistake(history)
        if finding is not None:
            history.reported = True
            yield finding

    def _mistake(self, history: _History) -> Finding | None:
        event, values = history.last, history.values
        source = source_of(event.place.path) if event.place else None
        given = _argument(source, event.place) if source and event.place else None
        text = source.text(given) if source and given else ""
        shown = f"`{text}`" if text else "a value"
        course = f"from {values[0]:.4g} to {values[-1]:.4g} in {len(values)} calls"
        is_counter = given is not None and not _words(given).isdisjoint(_COUNTERS)
        if history.counts() and (is_counter or (values[0] in (0, 1) and len(values) >= COUNTED)):
            return self._report(history, text, f"gets {shown}, a counter ({course}), not a metric", None)
        if history.is_constant() and (_is_unassigned(source, given) or _is_measured(values[0])):
            same = f"always {values[0]:.6g} in {len(values)} calls: it is never recomputed"
            return self._report(history, text, f"gets {shown}, {same}", None)
        better = _better(source, given)
        in_percent = min(values) >= 0 and max(values) <= 100
        if better == 1 and event.mode == "min" and history.trends(1) and in_percent:
            return self._report(history, text, f'has `mode="min"`, but {shown} should rise ({course})', "max")
        if better == -1 and event.mode == "max" and history.trends(-1):
            return self._report(history, text, f'has `mode="max"`, but {shown} should fall ({course})', "min")
        return None

    def _report(self, history: _History, text: str, what: str, mode: str | None) -> Finding:
        first, last = history.first, history.last
        rates = ""
        if history.reduced:
            rates = f" It cut the learning rate from {first.learning_rates[0]:g} to {last.learning_rates[0]:g}."
        fix = "Pass the metric of this epoch: `scheduler.step(val_loss)`."
        return self.finding(
            last,
            f"`ReduceLROnPlateau` {what}.{rates}",
            fix=fix if mode is None else f'Create it with `mode="{mode}"`.',
            evidence={
                "mode": last.mode,
                "value": text,
                "first_values": [f"{value:.6g}" for value in history.values[:5]],
                "last_value": f"{history.values[-1]:.6g}",
                "calls": len(history.values),
                "first_learning_rates": list(first.learning_rates),
                "last_learning_rates": list(last.learning_rates),
            },
            place=last.built if mode is not None else None,
            diff="" if mode is None else _with_mode(last.built, mode),
        )


# -- the name of the value --


def _argument(source: Source, place: Place) -> ast.expr | None:
    """The value passed to the only `step(value)` at a place."""
    values = [
        [word.value for word in call.keywords if word.arg == "metrics"] or call.args[:1]
        for call in source.calls(place.line, "step")
    ]
    passed = [value[0] for value in values if value]
    return passed[0] if len(passed) == 1 else None


def _words(node: ast.AST) -> set[str]:
    """The words of all names, attributes and strings in an expression: logs, val and acc of `logs["val_acc"]`."""
    found: set[str] = set()
    for inner in ast.walk(node):
        for text in (getattr(inner, "id", None), getattr(inner, "attr", None), getattr(inner, "value", None)):
            if isinstance(text, str):
                found |= {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*", text)}
    return found


def _better(source: Source | None, given: ast.expr | None) -> int:
    """1 if the name says that more is better, -1 if less is, 0 if neither, both, or inverted."""
    if given is None or source is None:
        return 0
    written = [given, *_assigned(source, given)]
    if any(isinstance(inner, (ast.USub, ast.Sub)) for node in written for inner in ast.walk(node)):
        return 0
    origins = (node.func if isinstance(node, ast.Call) else node for node in written[1:])  # of f(x) the name f
    for words in (_words(given), set[str]().union(*map(_words, origins))):
        if not words.isdisjoint(DIRECTION_WORDS):
            return better_by_name(words)
    return 0


def _assigned(source: Source, given: ast.expr) -> list[ast.expr]:
    """All values that the file assigns or adds to the name; for `total / len(loader)` to `total`."""
    name = given.left if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div) else given
    if not isinstance(name, ast.Name):
        return []
    found = [node for node in ast.walk(source.tree) if isinstance(node, (ast.Assign, ast.AugAssign))]
    targets = [(node, node.targets if isinstance(node, ast.Assign) else [node.target]) for node in found]
    return [node.value for node, into in targets if any(isinstance(t, ast.Name) and t.id == name.id for t in into)]


def _is_unassigned(source: Source | None, given: ast.expr | None) -> bool:
    """A literal, or a name that the loop around it never assigns."""
    if isinstance(given, ast.Constant):
        return True
    loop = source.enclosing_loop(given.lineno) if source is not None and given is not None else None
    if loop is None or not isinstance(given, ast.Name):
        return False
    named = [node for node in ast.walk(loop) if isinstance(node, ast.Name) and node.id == given.id]
    return not any(isinstance(node.ctx, ast.Store) for node in named)


def _is_measured(value: float) -> bool:
    """Neither an integer nor a share of some thousand samples, which may stay equal for many epochs."""
    if not isfinite(value):
        return False
    for part in (value, value / 100):
        # in float32 for a small set; in float64 for a larger one
        if abs(Fraction(part).limit_denominator(200) - Fraction(part)) <= 6e-8 * max(1.0, abs(part)):
            return False
        if abs(Fraction(part).limit_denominator(10_000) - Fraction(part)) <= 1e-10:
            return False
    return True


# -- the diff --


def _with_mode(built: Place | None, mode: str) -> str:
    """The constructor with a different mode."""
    if built is None:
        return ""
    source = source_of(built.path)
    around = source.statement(built.line) or source.tree
    calls = [call for call in calls_in(around) if called_name(call) == "ReduceLROnPlateau"]
    if len(calls) != 1 or not calls[0].args or any(word.arg is None for word in calls[0].keywords):
        return ""
    call = calls[0]
    named = [word.value for word in call.keywords if word.arg == "mode"]
    written = named[0] if named else call.args[1] if len(call.args) > 1 else None
    if written is None:
        return diff(built.path, [source.replacing(call.args[0], f'{source.text(call.args[0])}, mode="{mode}"')])
    if not isinstance(written, ast.Constant):
        return ""
    quote = source.text(written)[:1]
    return diff(built.path, [source.replacing(written, f"{quote}{mode}{quote}")])
