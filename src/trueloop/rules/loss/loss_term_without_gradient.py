"""LOS111 loss-term-without-gradient: a term of the loss is a plain number, so no weight is trained by it.

What it sees
------------
In a recorded training step the loss is a sum, and one of its terms was computed from the model's output but has no
graph: it went through `.item()`, `float()`, `.detach()` or `torch.no_grad()` before it was added. Or a loss function
whose result is a term compares tensors without any graph, in every recorded step: what a model computed went through
NumPy, or a tensor is compared with itself. Or a score is subtracted from the `logsumexp` of all scores, and only the
`logsumexp` was computed without a graph.

Why it hurts
------------
The term counts in the printed loss and in nothing else. A regularizer, a KL term or an auxiliary loss of this kind has
no effect on the weights. A score without the normalizer of its probability grows without end.

Evidence
--------
The line that cut the graph, the value of the term, and the line of the sum.

Use instead
-----------
    loss = reconstruction + beta * kl            # keep the tensor; call .item() only for printing

When it is fine
---------------
Not reported: factors (a weight or a temperature that is detached on purpose), terms that do not depend on a trained
parameter (a teacher's, unless it is compared with itself), baselines that are subtracted, targets inside a square,
straight-through terms, constants, and numbers that are only printed.
"""

import ast
from typing import Final

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import (
    ANY_ADDITION,
    ANY_DIFFERENCE,
    ANY_SCALING,
    ANY_SUBTRACTION,
    JOINS,
    LOSSES,
    NEGATIONS,
    VIEWS,
)
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, on_line
from trueloop.usercode.source import source_of

__all__ = ["LossTermWithoutGradient"]

_SUMS: Final = ANY_ADDITION | ANY_DIFFERENCE
_LINEAR: Final = VIEWS | NEGATIONS | JOINS | {"mean", "sum", "stack"}
_NUMBERS: Final = ("item", "__float__", "tolist")
_COMPARING: Final = LOSSES | {"triplet_margin_loss", "margin_ranking_loss", "cosine_embedding_loss"}
_UNARY: Final = _LINEAR | ANY_SCALING | {"softmax", "log_softmax", "sigmoid", "exp", "log", "normalize", "tanh"}
PROGRAMS: Final = 3
ZERO: Final = 1e-4


class LossTermWithoutGradient(Rule, code="LOS111", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"
    explained_by = ("derivative-without-graph",)

    def __init__(self) -> None:
        self._added: dict[Place, str] = {}
        """The number that a line added in an earlier step."""
        self._programs: dict[Place | None, int] = {}
        """Of a line that calls a loss function: recorded steps."""
        self._idle: dict[Place | None, list[tuple[StepProgram, Operation, float | None, str]]] = {}
        """The steps in which nothing that it compared had a graph, and its result was a term of the loss."""

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        summed = _summed(view)
        trained = _trained(view)
        self._note_idle(event, view, summed)
        for position, operation in enumerate(event.operations):
            if operation.name not in _SUMS or operation.model >= 0 or not operation.outputs:
                continue
            result = view.values[operation.outputs[0]]
            if operation.outputs[0] in summed and result.shape in ((), (1,)) and result.grad:
                yield from self._cut_tensor(event, view, operation, trained)
                yield from self._cut_number(event, view, position, trained)
        yield from self._cut_normalizer(event, view, summed)

    def _note_idle(self, event: StepProgram, view: ProgramView, summed: frozenset[int]) -> None:
        for place in {o.place for o in event.operations if o.name in _COMPARING}:
            self._programs[place] = self._programs.get(place, 0) + 1
        for operation in event.operations:
            sums = operation.name in ANY_ADDITION and operation.outputs and operation.outputs[0] in summed
            if not sums or operation.model >= 0 or len(operation.inputs) != 2:
                continue
            for index in operation.inputs:
                if (compared := _compared(view, index)) is not None and (how := _graphless(view, compared)):
                    value = view.values[compared.outputs[0]].mean
                    self._idle.setdefault(compared.place, []).append((event, compared, value, how))

    def on_run_ended(self, _: RunEnded) -> Findings:
        for place, seen in self._idle.items():
            event, compared, value, how = seen[-1]
            if len(seen) < max(PROGRAMS, self._programs[place]) or place is None:
                continue
            shown = "" if value is None else f" ({value:.4g})"
            yield self.finding(
                event,
                f"`{compared.name}`{shown} is a term of the loss and compares {how}, so it sends no gradient to any "
                "weight.",
                fix="Compare the output of the model in training, as the tensor that the model returned.",
                evidence={"function": compared.name, "term": value, "steps": len(seen)},
                place=place,
            )

    def _cut_tensor(
        self, event: StepProgram, view: ProgramView, operation: Operation, trained: frozenset[int]
    ) -> Findings:
        if operation.name not in ANY_ADDITION or len(operation.inputs) != 2:
            return  # what is subtracted is a baseline
        for index, other in (operation.inputs, operation.inputs[::-1]):
            value = view.values[index]
            if value.grad or value.origin != "operation" or not view.values[other].grad or value.mean == 0:
                continue
            behind = frozenset(view.behind(index))
            if trained.isdisjoint(behind) or view.through_views(other) in behind or index in view.behind(other):
                continue  # of a teacher; straight-through; a maximum that was taken out before
            made = view.place_of(index)
            yield self._report(event, operation, value.mean, made, "has no graph (detach or no_grad)")

    def _cut_normalizer(self, event: StepProgram, view: ProgramView, summed: frozenset[int]) -> Findings:
        """`logsumexp(scores.data) - scores.gather(..)`: the scores reach the loss in one of the two only."""
        for operation in event.operations:
            if operation.name not in ANY_SUBTRACTION or len(operation.inputs) != 2 or not operation.outputs:
                continue
            normalizer, score = operation.inputs
            values, made = view.values, view.maker(view.through_views(normalizer))
            if operation.outputs[0] not in summed or values[normalizer].grad or not values[score].grad:
                continue
            picked = {i for i in view.behind(score) if values[i].grad and values[i].origin != "parameter"}
            scored = view.maker(view.through_views(score))
            if made is None or made.name != "logsumexp" or scored is None or scored.name == "logsumexp":
                continue
            if (picked - {score}) & view.learned & set(view.behind(normalizer)):
                how = "is a `logsumexp` that has no graph (data, detach or no_grad)"
                yield self._report(event, operation, values[normalizer].mean, made.place, how)

    def _cut_number(self, event: StepProgram, view: ProgramView, position: int, trained: frozenset[int]) -> Findings:
        """`loss + beta * kl.item()`, also where the number was assigned to a name first."""
        operation = event.operations[position]
        with_number = operation.name in ANY_ADDITION and len(operation.inputs) < 2 and operation.options
        if not with_number or not operation.place:
            return
        added = operation.options[0][1]
        earlier = self._added.setdefault(operation.place, added)
        for taken in event.operations[:position]:
            if taken.name not in _NUMBERS or taken.number is None or not taken.inputs or taken.place is None:
                continue
            if added == earlier and added != repr(taken.number):
                continue  # perhaps a constant beside the number: seen once, or the same as before
            if not trained.isdisjoint(view.behind(taken.inputs[0])) and _feeds(taken.place, operation.place):
                yield self._report(event, operation, taken.number, taken.place, f"is a number: `.{taken.name}()`")

    def _report(
        self, event: StepProgram, operation: Operation, number: float | None, cut: Place | None, how: str
    ) -> Finding:
        shown = "" if number is None else f" ({number:.4g})"
        return self.finding(
            event,
            f"A term{shown} of the loss {how}{on_line(cut, operation.place)}, so it sends no gradient to any weight.",
            fix="Add the tensor itself to the loss; call `.item()` or `.detach()` only on what is printed.",
            evidence={"term": number, "cut_at": cut, "added_at": operation.place},
            place=operation.place,
        )


def _summed(view: ProgramView) -> frozenset[int]:
    """The values that are terms of a loss: sums, means and constant factors lead from them to it."""
    found, waiting = set(view.program.losses), list(view.program.losses)
    while waiting:
        maker = view.maker(waiting.pop())
        if maker is None:
            continue
        sources = [index for index in maker.inputs if view.values[index].grad]
        scaled = maker.name in ANY_SCALING and len(sources) == 1
        if scaled or maker.name in _SUMS or maker.name in _LINEAR:
            waiting += [index for index in sources if index not in found]
            found.update(sources)
    return frozenset(found)


def _compared(view: ProgramView, index: int) -> Operation | None:
    """The call of a loss function behind a term without a graph: behind reshapes and constant factors."""
    for _ in range(8):
        maker = view.maker(index)
        if maker is None or view.values[index].grad or not maker.inputs:
            return None
        if maker.name in _COMPARING:
            return maker if len(maker.inputs) > 1 else None
        if len(maker.inputs) > 1 or maker.name not in _LINEAR | ANY_SCALING:
            return None
        index = maker.inputs[0]
    return None


def _graphless(view: ProgramView, compared: Operation) -> str:
    """What a loss function compared, where nothing of it can be trained; empty where that may be on purpose."""
    pair = compared.inputs[:3] if compared.name == "triplet_margin_loss" else compared.inputs[:2]
    if any(view.values[index].grad or view.values[index].constant for index in pair):
        return ""
    roots = [_root(view, index) for index in pair]
    result = view.values[compared.outputs[0]].mean
    if len(set(roots)) == 1 and roots[0] in view.learned and result is not None and abs(result) < ZERO:
        return "a tensor with itself"
    if any(index in view.learned for index in pair) or not all(view.values[index].shape for index in pair):
        return ""  # a frozen part, in a training that takes turns
    floats = all(view.values[index].dtype.startswith("float") for index in pair)
    return "tensors without a graph, as after NumPy" if floats and view.predictions else ""


def _root(view: ProgramView, index: int) -> int:
    """The value behind operations on one tensor."""
    for _ in range(24):
        maker = view.maker(index)
        if maker is None or maker.name not in _UNARY or len(maker.inputs) != 1:
            return index
        index = maker.inputs[0]
    return index


def _trained(view: ProgramView) -> frozenset[int]:
    """The parameters that the losses send a gradient to."""
    seen, waiting = set(view.program.losses), list(view.program.losses)
    while waiting:
        maker = view.maker(waiting.pop())
        sources = [] if maker is None else [i for i in maker.inputs if view.values[i].grad and i not in seen]
        seen.update(sources)
        waiting += sources
    return frozenset(index for index in seen if view.values[index].origin == "parameter")


def _feeds(taken: Place, used: Place) -> bool:
    """Is the number part of the sum's statement, or assigned to a name that the statement reads?"""
    if taken.path != used.path:
        return False
    source = source_of(used.path)
    one, other = source.statement(taken.line), source.statement(used.line)
    if one is None or other is None:
        return False
    if one is other:
        return not isinstance(one, ast.AugAssign) or _is_loss_sum(one)
    if not isinstance(one, ast.Assign) or taken.function != used.function:
        return False
    assigned = {node.id for target in one.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    read = {node.id for node in ast.walk(other) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return bool(assigned & read)


def _is_loss_sum(statement: ast.AugAssign) -> bool:
    """`loss += beta * kl.item()` adds to a tensor; `total += loss.item()` is not on the path to the loss."""
    return isinstance(statement.op, (ast.Add, ast.Sub))
