"""OPT109 plateau-watches-wrong-way: ReduceLROnPlateau lowers the learning rate while training goes well, or never hears
how it goes.

What it sees
------------
The values that a `ReduceLROnPlateau` is told, and how they are called where it is told them. An accuracy (or F1, AUC,
recall ...) that rises while the schedule waits for a minimum; a loss or an error that falls while it waits for a
maximum; the number of the epoch or step; a value that is the same each time because it is not computed anew.

Why it hurts
------------
With the wrong mode every improvement counts as a bad epoch: after `patience` of them the learning rate is cut, again
and again, and training freezes while it goes well. A counter or a constant does the same, whatever the model does.

Evidence
--------
The mode, the first and last values, how they are written in the source, and the learning rates at the first and the
last of them.

Use instead
-----------
    scheduler = ReduceLROnPlateau(optimizer, mode="max")     # for an accuracy
    scheduler.step(val_accuracy)

When it is fine
---------------
A validation loss that rises under mode="min" is what the schedule is for, so the name of the value must say what it is:
values whose names tell nothing are not judged by their course. Nor are names that are negated (`-accuracy`, `1 -
accuracy`, `neg_loss`), an accuracy that happens to stand still, or fewer than four values."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from itertools import pairwise
from math import isfinite
from typing import Final, final

from trueloop.event import Place, PlateauStepped, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.source import Source, called_name, calls_in, diff, source_of

__all__ = ["PlateauWatchesWrongWay"]

ENOUGH: Final = 4
"""Values before one says which way they go."""
COUNTED: Final = 6
"""Integers in a row, from 0 or 1 on, that need no name to be a counter: no count of hits grows by one each
epoch for so long."""
KEPT: Final = 500
"""Values that are kept of one schedule, from the first: more would tell the same."""

_MORE_IS_BETTER: Final = (
    "acc", "accs", "accuracy", "accuracies", "f1", "auc", "auroc", "auprc", "precision", "recall", "iou", "miou", "dice", "correct", "bleu",
    "rouge", "r2", "top1", "top5", "map", "mrr", "ndcg", "psnr", "ssim",
)  # fmt: skip
"""Words in the names of metrics that are to rise."""
_LESS_IS_BETTER: Final = (
    "loss", "losses", "err", "error", "errors", "mse", "mae", "rmse", "nll", "bce", "ce", "ppl", "perplexity", "wer", "cer", "fid", "brier",
    "regret", "cost",
)  # fmt: skip
"""Words in the names of metrics that are to fall."""
_TURNED: Final = (
    "neg",
    "negative",
    "minus",
    "inv",
    "inverse",
    "inverted",
    "complement",
    "gap",
    "drop",
    "delta",
    "diff",
    "fake",
)
"""Words that may turn the meaning of the others around."""
_COUNTERS: Final = (
    "epoch", "epochs", "step", "steps", "iteration", "iterations", "iter", "it", "i", "idx", "index", "batch", "batches", "round",
)  # fmt: skip
"""Words in the names of what only counts."""


class _Told:
    """One schedule, and what it was told."""

    def __init__(self, event: PlateauStepped) -> None:
        self.first = self.last = event
        self.values: list[float] = []
        self.all_whole = True
        self.moved = 0
        """Values between which the optimizer took steps."""
        self.said = False

    def add(self, event: PlateauStepped) -> None:
        self.moved += event.optimizer_steps > self.last.optimizer_steps
        self.last = event
        self.all_whole = self.all_whole and event.is_int
        if len(self.values) < KEPT:
            self.values.append(event.value)

    @property
    def reduced(self) -> bool:
        return self.last.learning_rates < self.first.learning_rates

    def goes(self, way: int) -> bool:
        """Up (1) or down (-1): at the end further than at the beginning, and by more steps that way than the other."""
        steps = [way * (later - earlier) for earlier, later in pairwise(self.values)]
        return len(self.values) >= ENOUGH and sum(steps) > 0 and sum(s > 0 for s in steps) > sum(s < 0 for s in steps)

    def counts(self) -> bool:
        """Integers, each as far from the last as the one before."""
        gaps = {later - earlier for earlier, later in pairwise(self.values)}
        return len(self.values) >= ENOUGH and self.all_whole and len(gaps) == 1 and min(gaps) >= 1

    def stands(self) -> bool:
        """The same number each time, while the weights moved, for longer than the schedule is patient."""
        calls = max(ENOUGH, self.last.patience + 2)
        return len(self.values) >= calls and self.moved >= calls - 2 and len(set(self.values)) == 1


@final
class PlateauWatchesWrongWay(Rule):
    code = "OPT109"
    name = "plateau-watches-wrong-way"
    severity = Severity.ERROR
    not_applicable = "no ReduceLROnPlateau was told a value"

    def __init__(self) -> None:
        self._told: dict[int, _Told] = {}

    def on_plateau_stepped(self, event: PlateauStepped) -> Findings:
        told = self._told.setdefault(event.schedule, _Told(event))
        cut = event.learning_rates < told.last.learning_rates
        told.add(event)
        if cut:  # it has done its harm; else the end of the run tells
            yield from self._judge(told)

    def on_run_ended(self, event: RunEnded) -> Findings:
        for told in self._told.values():
            yield from self._judge(told)

    def why_not_checked(self) -> str:
        longest = max((len(told.values) for told in self._told.values()), default=0)
        return "" if longest >= ENOUGH else f"it was told fewer than {ENOUGH} values"

    def _judge(self, told: _Told) -> Findings:
        if told.said or len(told.values) < ENOUGH:
            return
        finding = self._wrong(told)
        if finding is not None:
            told.said = True
            yield finding

    def _wrong(self, told: _Told) -> Finding | None:
        event = told.last
        source = source_of(event.place.path) if event.place else None
        given = _given(source, event.place) if source and event.place else None
        text = source.text(given) if source and given else ""
        shown = f"`{text}`" if text else "a value"
        course = f"from {told.values[0]:.4g} to {told.values[-1]:.4g} over {len(told.values)} calls"
        if told.counts() and (_is_counter(given) or (told.values[0] in (0, 1) and len(told.values) >= COUNTED)):
            return self._say(
                told, text, f"is told {shown}, which counts {course} and says nothing of how training goes", None
            )
        if told.stands() and (_is_left_alone(source, given) or _is_measured(told.values[0])):
            same = f"the same {told.values[0]:.6g} at each of {len(told.values)} calls: it is not computed anew"
            return self._say(told, text, f"is told {shown}, {same}", None)
        better = _better(source, given)
        if better == 1 and event.mode == "min" and told.goes(1) and _is_a_share(told.values):
            return self._say(told, text, f"waits for a minimum of {shown}, which rises {course}", "max")
        if better == -1 and event.mode == "max" and told.goes(-1):
            return self._say(told, text, f"waits for a maximum of {shown}, which falls {course}", "min")
        return None

    def _say(self, told: _Told, text: str, what: str, mode: str | None) -> Finding:
        first, last = told.first, told.last
        rates = (
            f", and has cut the learning rate from {first.learning_rates[0]:g} to {last.learning_rates[0]:g}"
            if told.reduced
            else ""
        )
        fix = (
            "Tell it the metric of this epoch: scheduler.step(val_loss)."
            if mode is None
            else f'Build it with mode="{mode}".'
        )
        return self.finding(
            last,
            f"ReduceLROnPlateau {what}{rates}.",
            fix=fix,
            evidence={
                "mode": last.mode,
                "told": text,
                "first_values": [f"{value:.6g}" for value in told.values[:5]],
                "last_value": f"{told.values[-1]:.6g}",
                "calls": len(told.values),
                "first_learning_rates": list(first.learning_rates),
                "last_learning_rates": list(last.learning_rates),
            },
            place=last.built if mode is not None else None,
            diff="" if mode is None else _with_mode(last.built, mode),
        )


# -- what the value is called --


def _given(source: Source, place: Place) -> ast.expr | None:
    """The first argument of the step at a place."""
    calls = [
        call
        for call in source.calls(place.line, "step")
        if call.args or any(word.arg == "metrics" for word in call.keywords)
    ]
    if len(calls) != 1:
        return None
    named = [word.value for word in calls[0].keywords if word.arg == "metrics"]
    return named[0] if named else calls[0].args[0]


def _words(node: ast.AST) -> set[str]:
    """The words of all names, attributes and texts in an expression: `logs["val_acc"]` gives logs, val and acc."""
    found: set[str] = set()
    for inner in ast.walk(node):
        for text in (getattr(inner, "id", None), getattr(inner, "attr", None), getattr(inner, "value", None)):
            if isinstance(text, str):
                found |= {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*", text)}
    return found


def _better(source: Source | None, given: ast.expr | None) -> int:
    """1 if the name says that more is better, -1 if less is, 0 if it says neither, or both, or is turned around on the
    way."""
    if given is None or source is None:
        return 0
    written = [given, *_assigned(source, given)]
    if any(isinstance(inner, (ast.USub, ast.Sub)) for node in written for inner in ast.walk(node)):
        return 0
    for words in (_words(given), set[str]().union(*(_words(_source_of_value(node)) for node in written[1:]))):
        more, less, turned = (not words.isdisjoint(kind) for kind in (_MORE_IS_BETTER, _LESS_IS_BETTER, _TURNED))
        if more or less or turned:
            return 0 if turned or more == less else 1 if more else -1
    return 0


def _source_of_value(value: ast.expr) -> ast.AST:
    """Of what is assigned, the part whose name speaks for it: of a call the function, not its arguments."""
    return value.func if isinstance(value, ast.Call) else value


def _assigned(source: Source, given: ast.expr) -> list[ast.expr]:
    """What the file assigns, or adds, to the name, wherever it does; of `total / len(loader)` to the total."""
    name = given.left if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div) else given
    if not isinstance(name, ast.Name):
        return []
    found = [node for node in ast.walk(source.tree) if isinstance(node, (ast.Assign, ast.AugAssign))]
    targets = [(node, node.targets if isinstance(node, ast.Assign) else [node.target]) for node in found]
    return [node.value for node, into in targets if any(isinstance(t, ast.Name) and t.id == name.id for t in into)]


def _is_counter(given: ast.expr | None) -> bool:
    return given is not None and not _words(given).isdisjoint(_COUNTERS)


def _is_left_alone(source: Source | None, given: ast.expr | None) -> bool:
    """A number as written, or a name that nothing in the loop around it assigns."""
    if isinstance(given, ast.Constant):
        return True
    loop = source.enclosing_loop(given.lineno) if source is not None and given is not None else None
    if loop is None or not isinstance(given, ast.Name):
        return False
    return not any(
        isinstance(node, ast.Name) and node.id == given.id and isinstance(node.ctx, ast.Store)
        for node in ast.walk(loop)
    )


# -- what the values are --


def _is_a_share(values: list[float]) -> bool:
    """Within 0..1 or 0..100."""
    return min(values) >= 0 and max(values) <= 100


def _is_measured(value: float) -> bool:
    """No share of some hundred or thousand samples, which may well be the same for many epochs, and no whole number."""
    if not isfinite(value):
        return False
    for part in (value, value / 100):
        # in float32, of a small set; in float64, of a larger one
        if abs(Fraction(part).limit_denominator(200) - Fraction(part)) <= 6e-8 * max(1.0, abs(part)):
            return False
        if abs(Fraction(part).limit_denominator(10_000) - Fraction(part)) <= 1e-10:
            return False
    return True


# -- the diff --


def _with_mode(built: Place | None, mode: str) -> str:
    """The constructor with the other mode."""
    if built is None:
        return ""
    source = source_of(built.path)
    calls = [
        call
        for call in calls_in(source.statement(built.line) or source.tree)
        if called_name(call) == "ReduceLROnPlateau"
    ]
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
