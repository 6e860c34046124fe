"""MOD114 selected-on-training-loss: early stopping or the best weights follow the training loss; validation gets worse.

What it sees
------------
The mean loss of every evaluation pass: it was lowest some time ago and has risen since. In the source, a number that is
compared with the best one so far, or is given to an early stopping object, is a training loss: its name says so, or it
is summed in the loop that calls `backward()`.

Why it hurts
------------
The training loss falls as long as the model can memorize. The training continues, and the weights that are kept are
the most overfitted ones.

Evidence
--------
The lowest evaluation loss and its step, the last one, and the number of evaluations since.

Use instead
-----------
    if stopper.should_stop(val_loss):
        break

When it is fine
---------------
Not reported: runs without an evaluation loss, runs whose evaluation loss does not rise, and decisions about anything
else than a training loss. The counter-evidence is a decision by an evaluation value in the same file.
"""

import ast
from collections.abc import Iterator
from typing import Final

from trueloop.event import EvaluationCurve, LossCurve, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.names import HELD_OUT, TRAINING, words_of
from trueloop.usercode.source import Source, called_name, source_of

__all__ = ["SelectedOnTrainingLoss"]

PASSES: Final = 6
SINCE: Final = 3  # evaluations since the lowest one
RISEN: Final = 1.1
BEST: Final = frozenset({"best", "lowest", "minimum", "min"})
STOPPING: Final = frozenset({"stop", "stopper", "stopping", "patience", "earlystopping"})


class SelectedOnTrainingLoss(Rule, code="MOD114", severity=Severity.WARNING):
    not_applicable = "no evaluation loss was computed six times"

    def __init__(self) -> None:
        self._curves: list[EvaluationCurve] = []
        self._training: LossCurve | None = None

    def on_evaluation_curve(self, event: EvaluationCurve) -> None:
        self._curves.append(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._training = event

    def why_not_checked(self) -> str:
        return "" if any(len(curve.losses) >= PASSES for curve in self._curves) else self.not_applicable

    def on_run_ended(self, end: RunEnded) -> Findings:
        risen = [curve for curve in self._curves if _has_risen(curve)]
        if not risen or len(risen) < len([c for c in self._curves if len(c.losses) >= PASSES]):
            return  # one of several evaluations, perhaps of the training set, is no worse
        paths = dict.fromkeys(at.path for at in (risen[0].place, self._training and self._training.place) if at)
        for source in map(source_of, paths):
            decisions = list(_decisions(source))
            if not decisions or any(is_held_out for _, _, is_held_out in decisions):
                continue
            node, name, _ = decisions[0]
            best = min(risen[0].losses, key=lambda pair: pair[1])
            since = len(risen[0].losses) - 1 - risen[0].losses.index(best)
            last = risen[0].losses[-1][1]
            yield self.finding(
                risen[0],
                f"The evaluation loss was lowest ({best[1]:.4g}) at step {best[0]} and is {last:.4g} now, {since} "
                f"evaluations later, but `{name}`, a training loss, decides here.",
                fix="Decide by the validation loss.",
                evidence={"lowest": best[1], "at_step": best[0], "last": last, "evaluations_since": since,
                          "decides": name},
                place=source.place(node),
            )  # fmt: skip
            return


def _has_risen(curve: EvaluationCurve) -> bool:
    losses = [loss for _, loss in curve.losses]
    if len(losses) < PASSES:
        return False
    since = losses[losses.index(min(losses)) :]
    return len(since) > SINCE and since[-1] > RISEN * since[0] > 0


def _decisions(source: Source) -> Iterator[tuple[ast.expr, str, bool]]:
    """Numbers that stop the training or choose the best weights: the node, the name, and whether it is held out."""
    summed = set(_summed_in_training(source.tree))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = (node.left, node.comparators[0])
            if any(BEST & _words(source, side) for side in sides):
                yield from _judged(source, sides, summed)
        elif isinstance(node, ast.Call) and STOPPING & _words(source, node.func) and called_name(node) != "Event":
            yield from _judged(source, tuple(node.args), summed)


def _judged(source: Source, nodes: tuple[ast.expr, ...], summed: set[str]) -> Iterator[tuple[ast.expr, str, bool]]:
    for node in nodes:
        words = _words(source, node)
        if words & HELD_OUT:
            yield node, source.text(node), True
        elif (words & TRAINING and "loss" in words) or source.text(node) in summed:
            yield node, source.text(node), False


def _words(source: Source, node: ast.expr) -> set[str]:
    return set(words_of(source.text(node)))


def _summed_in_training(tree: ast.AST) -> Iterator[str]:
    """Names of numbers that are summed up in a loop with `backward()` outside of any function with an evaluation."""
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For) or not any(_is_backward(node) for node in ast.walk(loop)):
            continue
        if any(isinstance(inner, ast.For) and inner is not loop for inner in ast.walk(loop)):
            continue
        for node in ast.walk(loop):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and "loss" in ast.unparse(node.value):
                yield ast.unparse(node.target)


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and called_name(node) == "backward"
