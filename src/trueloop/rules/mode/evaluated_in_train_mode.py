"""MOD101 evaluated-in-train-mode: dropout and batch norm were active while the model was being measured.

What it sees
------------
A model that is trained in this run is also called with no backward following, on batch after batch, while it is in
train mode and has dropout that drops, batch norm that uses (and updates) batch statistics, or noise that a class of the
user's draws `if self.training`. Such a pass is an evaluation if losses or decisions (argmax) are taken from it, or if
it runs over a loader of its own. A single call counts when it is scored and comes back (full-batch validation).

Why it hurts
------------
The measured loss and accuracy are those of a randomly thinned network, and differ from call to call; batch norm judges
each sample by its neighbours, and its running statistics learn from the validation data. Early stopping and model
selection follow noise.

Evidence
--------
The model, how many calls of the pass, how many layers were active, and the size of the batches.

Use instead
-----------
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            ...
    model.train()

When it is fine
---------------
Not reported: a generator that makes a sample or a fake batch without a gradient, labels that are guessed inside a
training step, Monte Carlo dropout (the same input again and again, or a name that says so), batch-norm recalibration
(`update_bn`, or calls whose result is thrown away), and acting in an environment without any loss.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, final

from trueloop.event import Forward, Place, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import after, before, loops_around, model_called, says_monte_carlo, trains
from trueloop.usercode.source import Source, diff, source_of

__all__ = ["EvaluatedInTrainMode"]

RARE: Final = 5
"""Backwards between two single scored calls that are too many for labels guessed inside training, which come with every
step or two."""


@dataclass(slots=True)
class _Pass:
    """Calls of one model in train mode with no backward between them."""

    first: Forward
    calls: int = 0
    scored: int = 0
    repeated_place: bool = False
    repeats: int = 0
    """Calls with the very input of the call before."""
    last: Forward | None = None
    places: set[Place | None] = field(default_factory=set)

    def add(self, call: Forward) -> None:
        self.last = call
        if self.calls and call.same_input:
            self.repeats += 1
            return
        self.calls += 1
        self.scored += call.scored and call.batch != 1  # a decision on one sample is an action, not a score
        self.repeated_place = self.repeated_place or call.place in self.places
        self.places.add(call.place)


@dataclass(slots=True)
class _Story:
    """What is known of one model."""

    trained: bool = False
    """A backward went through it in train mode."""
    last_trained: Forward | None = None
    training_places: set[Place | None] = field(default_factory=set)
    current: _Pass | None = None
    singles: list[Forward] = field(default_factory=list)
    waiting: list[_Pass] = field(default_factory=list)
    """Evaluations before the first training."""


@final
class EvaluatedInTrainMode(Rule):
    code = "MOD101"
    name = "evaluated-in-train-mode"
    severity = Severity.ERROR
    not_applicable = "no model was called"

    def __init__(self) -> None:
        self._stories: dict[int, _Story] = {}

    def on_forward(self, call: Forward) -> Findings:
        story = self._stories.setdefault(call.model, _Story())
        if call.fate == "trained":
            yield from self._close(story, call.passes)
            story.last_trained = call
            story.training_places.add(call.place)
            if call.training and not story.trained:
                story.trained = True
                yield from (self._speak(found) for found in story.waiting)
        elif call.fate == "unknown" or not _could_be_evaluation(story, call):
            yield from self._close(story, call.passes)
        else:
            if story.current is not None and story.current.first.backwards != call.backwards:
                yield from self._close(story, call.passes)
            story.current = story.current or _Pass(call)
            story.current.add(call)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for story in self._stories.values():
            yield from self._close(story, None)

    def _close(self, story: _Story, passes: int | None) -> Iterator[Finding]:
        """The pass has ended: by training, by another mode, or (passes is None) with the run."""
        found, story.current = story.current, None
        if found is None or not (
            _is_pass(story, found, passes) or _is_recurring_single(story, found, at_the_end=passes is None)
        ):
            return
        if story.trained or found.first.optimized:
            yield self._speak(found)
        else:
            story.waiting.append(found)

    def _speak(self, found: _Pass) -> Finding:
        call = found.first
        layers = [f"{count} {what}" for count, what in _active_layers(call)]
        times = "1 call" if found.calls == 1 else f"{found.calls} calls in a row"
        return self.finding(
            call,
            f"{call.name} was evaluated in train mode: {times} with no backward ran with {' and '.join(layers)} active.",
            fix="Call model.eval() before the evaluation and model.train() after it.",
            evidence={
                "model": call.name,
                "calls": found.calls,
                "scored_calls": found.scored,
                "active_dropouts": call.active_dropouts,
                "active_batch_norms": call.active_batch_norms,
                "active_noises": call.active_noises,
                "batch": call.batch,
                "gradients_recorded": call.grad,
            },
            diff=_eval_around(call.place, looped=found.repeated_place),
        )


def _active_layers(call: Forward) -> Iterator[tuple[int, str]]:
    kinds = (
        (call.active_dropouts, "dropout layer"),
        (call.active_batch_norms, "batch norm layer"),
        (call.active_noises, "noise layer"),
    )
    for count, what in kinds:
        if count:
            yield count, what if count == 1 else f"{what}s"


def _could_be_evaluation(story: _Story, call: Forward) -> bool:
    """In train mode, with something active, and neither recalibration, nor chance by name, nor a training batch that
    was skipped."""
    if (
        not call.training
        or not (call.active_dropouts or call.active_batch_norms or call.active_noises)
        or call.recalibration
    ):
        return False
    if call.fate == "dropped" and call.place in story.training_places:
        return False
    function = "" if call.place is None else call.place.function
    return not says_monte_carlo(function) and not says_monte_carlo(call.name)


def _is_pass(story: _Story, found: _Pass, passes: int | None) -> bool:
    """Two calls or more that were scored, or that ran over a loader of their own and whose results were kept."""
    if found.calls < 2 or found.repeats:
        return False
    if found.scored >= 2:
        return True
    before = story.last_trained.passes if story.last_trained is not None else 0
    own_loader = found.first.passes > before and (passes is None or passes > found.first.passes)
    return own_loader and not _thrown_away(found.first.place)


def _is_recurring_single(story: _Story, found: _Pass, *, at_the_end: bool) -> bool:
    """One scored batch, after a training step, that comes back: rarely, or as the last thing the run does."""
    call, last = found.first, story.last_trained
    if found.calls != 1 or not found.scored or last is None or call.backwards <= last.backwards:
        return False
    story.singles.append(call)
    if len(story.singles) < 2:
        return False
    return at_the_end or call.backwards - story.singles[-2].backwards >= RARE


def _thrown_away(place: Place | None) -> bool:
    """`model(x)` as a statement: the call is there for what it does to the model (batch-norm statistics), not for its
    result."""
    statement = source_of(place.path).statement(place.line) if place is not None else None
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id == "_" for target in statement.targets)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    collects = (
        isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id != "self"
    )
    return not collects and not (isinstance(function, ast.Name) and function.id == "print")


def _eval_around(place: Place | None, *, looped: bool) -> str:
    """`model.eval()` before the evaluation and `model.train()` after it, where it is one statement that neither trains
    nor returns."""
    if place is None:
        return ""
    source = source_of(place.path)
    model = model_called(source, place)
    statement = source.statement(place.line)
    if not model or statement is None:
        return ""
    whole = _evaluation(source, statement, looped=looped)
    if trains(whole) or any(
        isinstance(node, (ast.Return, ast.Yield, ast.Break, ast.Continue)) for node in _leaving(whole)
    ):
        return ""
    edits = [before(source, whole, f"{model}.eval()")]
    last = whole.end_lineno or whole.lineno
    in_function = source.enclosing_function(whole.lineno) is not None
    trains_later = any(trains(node) for node in source.tree.body if (node.end_lineno or 0) > last)
    if in_function or loops_around(source, whole) or trains_later:
        edits.append(after(source, whole, f"{model}.train()"))
    return diff(place.path, edits)


def _evaluation(source: Source, statement: ast.stmt, *, looped: bool) -> ast.stmt:
    """The statement, the `with` blocks around it and, if it ran again with no training between, the loop around it."""
    whole, loops = statement, int(looped)
    for parent in source.parents(statement):
        if isinstance(parent, ast.With):
            whole = parent
        elif isinstance(parent, (ast.For, ast.While)) and loops:
            whole, loops = parent, loops - 1
        else:
            break
    return whole


def _leaving(whole: ast.stmt) -> Iterator[ast.AST]:
    """Statements that leave it half way; a break or continue of a loop inside it does not."""
    inside = isinstance(whole, (ast.For, ast.While)) or any(
        isinstance(node, (ast.For, ast.While)) for node in ast.walk(whole)
    )
    for node in ast.walk(whole):
        if not (inside and isinstance(node, (ast.Break, ast.Continue))):
            yield node
