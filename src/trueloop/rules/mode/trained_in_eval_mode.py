"""MOD102 trained-in-eval-mode: the optimizer moves a model that is in eval mode, with its dropout or batch norm
switched off.

What it sees
------------
Steps whose gradients all came from forwards in eval mode, of a model with dropout or batch norm. Either the same
optimizer has trained the model in train mode before (the evaluation switched it over and nobody switched it back), or a
line of yours called `eval()` and the optimizer holds the whole model.

Why it hurts
------------
From then on dropout drops nothing and batch norm uses frozen statistics: the regularisation you chose is off, and the
statistics grow stale while the weights move. The first epoch trains one network, all later ones another.

Evidence
--------
The model, how many steps were taken so, how many layers are idle, and the line that called `eval()`.

Use instead
-----------
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            ...
        evaluate(model)  # calls model.eval()

When it is fine
---------------
Not reported: only some layers in eval mode (frozen batch norm), a frozen backbone or a part of a model that is trained
in eval mode from the start, inputs that are optimised through a model in eval mode, adversarial examples made in eval
mode before a forward in train mode.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Final, final

from trueloop.event import Place, Stepped, SteppedWhileEvaluating
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import before, loops_around, model_called
from trueloop.usercode.source import Source, diff, shown_path, source_of

__all__ = ["TrainedInEvalMode"]

STEPS: Final = 2
"""Steps in eval mode before it is said: one alone may be a probe of the user's."""


@final
class TrainedInEvalMode(Rule):
    code = "MOD102"
    name = "trained-in-eval-mode"
    severity = Severity.ERROR
    not_applicable = "no optimizer step was seen"

    def __init__(self) -> None:
        self._steps: Counter[tuple[int, Place | None]] = Counter()

    def on_stepped(self, event: Stepped) -> None:
        """A step in train mode is in order; that there was one means that there was something to judge."""

    def on_stepped_while_evaluating(self, event: SteppedWhileEvaluating) -> Findings:
        switched = _calls_eval(event.eval_place)
        if not event.trained_before and not (event.all_parameters and switched):
            return
        count = self._steps[event.model, event.place] = self._steps[event.model, event.place] + 1
        if count != STEPS:
            return
        layers = [
            (event.idle_dropouts, "dropout"),
            (event.idle_batch_norms, "batch norm"),
            (event.idle_noises, "noise"),
        ]
        idle = " and ".join(f"{count} {what} layer{'s' if count > 1 else ''}" for count, what in layers if count)
        before_that = " after steps in train mode" if event.trained_before else ""
        yield self.finding(
            event,
            f"{event.name} is trained in eval mode{before_that}: {STEPS} steps had their gradients from forwards with {idle} switched off.",
            fix="Call model.train() before each training epoch.",
            evidence={
                "model": event.name,
                "idle_dropouts": event.idle_dropouts,
                "idle_batch_norms": event.idle_batch_norms,
                "eval_called_at": _shown(event.eval_place),
                "trained_in_train_mode_before": event.trained_before,
            },
            diff=_train_again(event.place, event.eval_place),
        )


def _shown(place: Place | None) -> str:
    return "" if place is None else f"{shown_path(place.path)}:{place.line}"


def _calls_eval(place: Place | None) -> bool:
    """Is `eval()`, or `train(…)` with an argument, written on the line? A library may have called it for the user."""
    if place is None:
        return False
    source = source_of(place.path)
    return bool(source.calls(place.line, "eval")) or any(
        call.args or call.keywords for call in source.calls(place.line, "train")
    )


def _train_again(place: Place | None, eval_place: Place | None) -> str:
    """`model.train()` where an epoch starts."""
    source = source_of(place.path) if place is not None else None
    model = "" if source is None else model_called(source, place)
    statement = source.statement(place.line) if source is not None and place is not None else None
    if source is None or place is None or statement is None or not model:
        return ""
    loops = loops_around(source, statement)
    if not loops:
        return ""
    head = f"{model}.train()"
    if len(loops) == 1 and not _inside(source, loops[0], eval_place):
        return diff(place.path, [before(source, loops[0], head)])
    return diff(place.path, [before(source, loops[min(1, len(loops) - 1)].body[0], head)])


def _inside(source: Source, loop: ast.stmt, place: Place | None) -> bool:
    """Does the loop come by the line that calls eval()? A function elsewhere may be called from it if the loop is the
    script's own."""
    if place is None:
        return False
    if place.path == source.path and loop.lineno <= place.line <= (loop.end_lineno or loop.lineno):
        return True
    apart = place.path != source.path or source.enclosing_function(place.line) is not source.enclosing_function(
        loop.lineno
    )
    return apart and source.enclosing_function(loop.lineno) is None
