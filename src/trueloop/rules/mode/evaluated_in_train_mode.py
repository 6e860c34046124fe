"""MOD101 evaluated-in-train-mode: dropout or batch norm was active while the model was evaluated.

What it sees
------------
A model that is trained in this run is also called without a backward, batch after batch, while it is in train mode and
has active dropout, batch norm that uses (and updates) batch statistics, or noise that one of your classes draws `if
self.training`. Such a pass counts as an evaluation if losses or decisions (argmax) are computed from it, or if it runs
over its own loader. A single call counts if it is scored and repeated (full-batch validation).
Or `model.eval()` was called, and a `train()` method of one of your classes left that class in train mode: `eval()` is
`train(False)`, and the method drops its argument. Then every such pass counts.

Why it hurts
------------
The measured loss and accuracy belong to a network with random dropout and differ from call to call. Batch norm
normalizes each sample by the other samples of the batch, and its running statistics learn from the validation data.
Early stopping and model selection follow noise.

Evidence
--------
The model, the number of calls in the pass, the number of active layers, and the batch size.

Use instead
-----------
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            ...
    model.train()

    def train(self, mode=True):
        super().train(mode)         # not super().train()
        self.stem.eval()
        return self

When it is fine
---------------
Not reported: a generator that draws samples or a fake batch without a gradient, pseudo-labels computed inside a
training step, Monte Carlo dropout (the same input repeatedly, or a name that says so), batch-norm recalibration
(`update_bn`, or calls whose result is discarded), acting in an environment without any loss, and a `train()` method
that asks for train mode explicitly (`train(True)`).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trueloop.event import Forward, Place, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts, on_line, plural, statement_at
from trueloop.usercode.names import says_monte_carlo
from trueloop.usercode.rewrite import after, before, loops_around, model_called, trains
from trueloop.usercode.source import Source, diff

__all__ = ["EvaluatedInTrainMode"]

RARE: Final = 5  # Backwards between two single scored calls: pseudo-labels inside training come with every step or two


@dataclass(slots=True)
class _Pass:
    """Calls of one model in train mode without a backward in between."""

    first: Forward
    calls: int = 0
    scored: int = 0
    refused: int = 0  # Calls after an `eval()` that had no effect
    repeated_place: bool = False
    repeats: int = 0  # Calls with the same input as the previous call
    last: Forward | None = None
    places: set[Place | None] = field(default_factory=set)

    def add(self, call: Forward) -> None:
        self.last = call
        if self.calls and call.same_input:
            self.repeats += 1
            return
        self.calls += 1
        self.scored += call.scored and call.batch != 1  # a decision on one sample is an action, not a score
        self.refused += call.refused is not None
        self.repeated_place = self.repeated_place or call.place in self.places
        self.places.add(call.place)


@dataclass(slots=True)
class _History:
    """The calls of one model."""

    trained: bool = False  # A backward went through the model in train mode
    last_trained: Forward | None = None
    training_places: set[Place | None] = field(default_factory=set)
    current: _Pass | None = None
    singles: list[Forward] = field(default_factory=list)
    waiting: list[_Pass] = field(default_factory=list)  # Evaluations before the first training


class EvaluatedInTrainMode(Rule, code="MOD101", severity=Severity.ERROR):
    not_applicable = "no model was called"

    def __init__(self) -> None:
        self._histories: dict[int, _History] = {}

    def on_forward(self, call: Forward) -> Findings:
        history = self._histories.setdefault(call.model, _History())
        if call.fate == "trained":
            yield from self._close(history, call.passes)
            history.last_trained = call
            history.training_places.add(call.place)
            if call.training and not history.trained:
                history.trained = True
                yield from map(self._report, history.waiting)
        elif call.fate == "unknown" or not _could_be_evaluation(history, call):
            yield from self._close(history, call.passes)
        else:
            if history.current is not None and history.current.first.backwards != call.backwards:
                yield from self._close(history, call.passes)
            history.current = history.current or _Pass(call)
            history.current.add(call)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for history in self._histories.values():
            yield from self._close(history, None)

    def _close(self, history: _History, passes: int | None) -> Iterator[Finding]:
        """The pass has ended: by training, by a different mode, or (passes is None) with the run."""
        found, history.current = history.current, None
        if found is None or not (
            _is_pass(history, found, passes) or _is_recurring_single(history, found, at_the_end=passes is None)
        ):
            return
        if history.trained or found.first.optimized:
            yield self._report(found)
        else:
            history.waiting.append(found)

    def _report(self, found: _Pass) -> Finding:
        call = found.first
        counts = {"dropout": call.active_dropouts, "batch norm": call.active_batch_norms, "noise": call.active_noises}
        layers = " and ".join(plural(count, f"{kind} layer") for kind, count in counts.items() if count)
        refused = call.refused
        cause = (
            "" if refused is None else f" `eval()`{on_line(call.eval_place, refused)} had no effect: this drops `mode`."
        )
        return self.finding(
            call,
            f"{call.name} was evaluated in train mode: {plural(found.calls, 'call')} without backward ran with "
            f"{layers} active.{cause}",
            fix="Pass the mode on: `super().train(mode)`. `eval()` is `train(False)`."
            if refused
            else "Call `model.eval()` before the evaluation and `model.train()` after it.",
            place=refused,
            evidence=facts(
                call,
                "model=name calls scored_calls active_dropouts active_batch_norms active_noises batch",
                gradients_recorded=call.grad,
                calls=found.calls,
                scored_calls=found.scored,
            ),
            diff="" if refused else _eval_around(call.place, looped=found.repeated_place),
        )


def _could_be_evaluation(history: _History, call: Forward) -> bool:
    """In train mode with active layers, and not recalibration, Monte Carlo by name, or a skipped training batch."""
    active = call.active_dropouts or call.active_batch_norms or call.active_noises
    if not (call.training or call.refused) or not active or call.recalibration:
        return False
    if call.fate == "dropped" and call.place in history.training_places:
        return False
    function = "" if call.place is None else call.place.function
    return not says_monte_carlo(function) and not says_monte_carlo(call.name)


def _is_pass(history: _History, found: _Pass, passes: int | None) -> bool:
    """At least two calls that were scored, or that ran over their own loader and whose results were kept."""
    if found.calls < 2 or found.repeats:
        return False
    if found.scored >= 2 or found.refused >= 2:
        return True
    before = history.last_trained.passes if history.last_trained is not None else 0
    own_loader = found.first.passes > before and (passes is None or passes > found.first.passes)
    return own_loader and not _result_discarded(found.first.place)


def _is_recurring_single(history: _History, found: _Pass, *, at_the_end: bool) -> bool:
    """One scored batch after a training step that is repeated: rarely, or at the end of the run."""
    call, last = found.first, history.last_trained
    if found.calls != 1 or not (found.scored or found.refused) or last is None or call.backwards <= last.backwards:
        return False
    history.singles.append(call)
    if len(history.singles) < 2:
        return False
    return at_the_end or call.backwards - history.singles[-2].backwards >= RARE


def _result_discarded(place: Place | None) -> bool:
    """`model(x)` as a statement: the call only updates the model (batch-norm statistics)."""
    _, statement = statement_at(place)
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
    """`model.eval()` before and `model.train()` after the evaluation, if it is one statement that does not train or
    return."""
    source, statement = statement_at(place)
    model = model_called(source, place)
    if not model or statement is None:
        return ""
    whole = _evaluation(source, statement, looped=looped)
    if trains(whole) or _may_leave(whole):
        return ""
    edits = [before(source, whole, f"{model}.eval()")]
    last = whole.end_lineno or whole.lineno
    in_function = source.enclosing_function(whole.lineno) is not None
    trains_later = any(trains(node) for node in source.tree.body if (node.end_lineno or 0) > last)
    if in_function or loops_around(source, whole) or trains_later:
        edits.append(after(source, whole, f"{model}.train()"))
    return diff(source.path, edits)


def _evaluation(source: Source, statement: ast.stmt, *, looped: bool) -> ast.stmt:
    """The statement, the `with` blocks around it and, if it ran repeatedly without training, the loop around it."""
    whole, loops = statement, int(looped)
    for parent in source.parents(statement):
        if isinstance(parent, ast.With):
            whole = parent
        elif isinstance(parent, (ast.For, ast.While)) and loops:
            whole, loops = parent, loops - 1
        else:
            break
    return whole


def _may_leave(whole: ast.stmt) -> bool:
    """It contains a return, a yield, or a break or continue of a loop around it."""
    nodes = list(ast.walk(whole))
    loops = any(isinstance(node, (ast.For, ast.While)) for node in nodes)
    leaving = (ast.Return, ast.Yield) if loops else (ast.Return, ast.Yield, ast.Break, ast.Continue)
    return any(isinstance(node, leaving) for node in nodes)
