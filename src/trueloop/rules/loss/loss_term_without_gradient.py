"""LOS111 loss-term-without-gradient: a term of the loss is a plain number, so no weight is trained by it.

What it sees
------------
In a recorded training step the loss is a sum, and one of its terms was computed from the model's output but has no
graph: it went through `.item()`, `float()`, `.detach()` or `torch.no_grad()` before it was added.

Why it hurts
------------
The term counts in the printed loss and in nothing else. A regularizer, a KL term or an auxiliary loss of this kind has
no effect on the weights.

Evidence
--------
The line that cut the graph, the value of the term, and the line of the sum.

Use instead
-----------
    loss = reconstruction + beta * kl            # keep the tensor; call .item() only for printing

When it is fine
---------------
Not reported: factors (a weight or a temperature that is detached on purpose), terms that do not depend on a parameter,
and numbers that are only printed.
"""

import ast
from typing import Final, final

from trueloop.event import Operation, Place, StepProgram
from trueloop.finding import Finding, Severity
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, on_line
from trueloop.usercode.source import source_of

__all__ = ["LossTermWithoutGradient"]

_SUMS: Final = frozenset({"add", "sub", "__add__", "__radd__", "__sub__", "__rsub__", "__iadd__", "__isub__", "add_"})
_NUMBERS: Final = ("item", "__float__", "tolist")


@final
class LossTermWithoutGradient(Rule):
    code = "LOS111"
    name = "loss-term-without-gradient"
    severity = Severity.ERROR
    not_applicable = "no training step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        if event.phase != "training" or not event.losses:
            return
        view = ProgramView(event)
        for operation in event.operations:
            if operation.name not in _SUMS or operation.model >= 0 or not operation.outputs:
                continue
            result = operation.outputs[0]
            if result not in view.on_loss_path or view.values[result].shape not in ((), (1,)):
                continue
            if not view.values[result].grad:
                continue
            yield from self._cut_tensor(event, view, operation)
            yield from self._cut_number(event, view, operation)

    def _cut_tensor(self, event: StepProgram, view: ProgramView, operation: Operation) -> Findings:
        for index in operation.inputs:
            value = view.values[index]
            if value.grad or index not in view.learned or value.origin != "operation":
                continue
            made = view.place_of(index)
            yield self._report(event, operation, value.mean, made, "has no graph (detach or no_grad)")

    def _cut_number(self, event: StepProgram, view: ProgramView, operation: Operation) -> Findings:
        """`loss + beta * kl.item()`, also where the number was assigned to a name first."""
        if len(operation.inputs) > 1 or operation.place is None:
            return
        before = event.operations[: event.operations.index(operation)]
        for taken in before:
            if taken.name not in _NUMBERS or taken.number is None or not taken.inputs or taken.place is None:
                continue
            source = view.values[taken.inputs[0]]
            if source.grad and taken.inputs[0] in view.learned and _feeds(taken.place, operation.place):
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
