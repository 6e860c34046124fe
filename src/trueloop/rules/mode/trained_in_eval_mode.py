"""MOD102 trained-in-eval-mode: the model is trained in eval mode, with dropout or batch norm disabled.

What it sees
------------
Steps whose gradients all came from forwards in eval mode, of a model with dropout or batch norm. Either the same
optimizer trained the model in train mode before (the evaluation called `eval()` and nothing called `train()`), or a
line of your code called `eval()` and the optimizer holds all parameters of the model.

Why it hurts
------------
From then on dropout is disabled and batch norm uses frozen statistics: the regularization is off, and the statistics
become outdated while the weights change. The first epoch trains a different network than all later ones.

Evidence
--------
The model, the number of disabled layers, and the line that called `eval()`.

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
in eval mode from the start, inputs optimized through a model in eval mode, adversarial examples computed in eval mode
before a forward in train mode.
"""

import ast
from typing import Final

from trueloop.event import Place, Stepped, SteppedWhileEvaluating
from trueloop.rules.rule import Findings, Rule, Severity, facts, on_line, plural, statement_at
from trueloop.usercode.rewrite import before, loops_around, model_called
from trueloop.usercode.source import Source, diff, source_of

__all__ = ["TrainedInEvalMode"]

STEPS: Final = 2  # Steps in eval mode before the rule reports: a single one may be an experiment


class TrainedInEvalMode(Rule, code="MOD102", severity=Severity.ERROR):
    not_applicable = "no optimizer step was seen"
    applies_after = (Stepped,)

    def on_stepped_while_evaluating(self, event: SteppedWhileEvaluating) -> Findings:
        switched = _calls_eval(event.eval_place)
        if not event.trained_before and not (event.all_parameters and switched):
            return
        if self.count(event.model, event.place) != STEPS:
            return
        counts = {"dropout": event.idle_dropouts, "batch norm": event.idle_batch_norms, "noise": event.idle_noises}
        idle = " and ".join(plural(count, f"{kind} layer") for kind, count in counts.items() if count)
        eval_line = f"`eval()`{on_line(event.eval_place, event.place)}" if event.eval_place else "`eval()`"
        yield self.finding(
            event,
            f"{event.name} is trained in eval mode with {idle} disabled: no `train()` follows {eval_line}.",
            fix="Call `model.train()` at the start of each training epoch.",
            evidence=facts(
                event,
                "model=name idle_dropouts idle_batch_norms eval_called_at=eval_place",
                "trained_in_train_mode_before=trained_before",
                steps_in_eval_mode=STEPS,
            ),
            diff=_train_again(event.place, event.eval_place),
        )


def _calls_eval(place: Place | None) -> bool:
    """Is `eval()`, or `train(…)` with an argument, on the line? A library may have called it for the user."""
    if place is None:
        return False
    source = source_of(place.path)
    return bool(source.calls(place.line, "eval")) or any(
        call.args or call.keywords for call in source.calls(place.line, "train")
    )


def _train_again(place: Place | None, eval_place: Place | None) -> str:
    """`model.train()` at the start of an epoch."""
    source, statement = statement_at(place)
    model = model_called(source, place)
    loops = [] if statement is None or not model else loops_around(source, statement)
    if not loops:
        return ""
    head = f"{model}.train()"
    if len(loops) == 1 and not _inside(source, loops[0], eval_place):
        return diff(source.path, [before(source, loops[0], head)])
    return diff(source.path, [before(source, loops[min(1, len(loops) - 1)].body[0], head)])


def _inside(source: Source, loop: ast.stmt, place: Place | None) -> bool:
    """Does the loop reach the line that calls eval()? A loop at script level may call a function elsewhere."""
    if place is None:
        return False
    if place.path == source.path and loop.lineno <= place.line <= (loop.end_lineno or loop.lineno):
        return True
    around = source.enclosing_function(loop.lineno)
    return around is None and (place.path != source.path or source.enclosing_function(place.line) is not None)
