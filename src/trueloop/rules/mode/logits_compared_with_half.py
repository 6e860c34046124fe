"""MOD115 logits-compared-with-half: raw logits are compared with 0.5, as if they were probabilities.

What it sees
------------
An output of a model goes into `binary_cross_entropy_with_logits`, so it is a logit. In recorded steps or evaluations
the same output is compared with 0.5, or rounded, without a sigmoid between, and the result is compared with labels of
0 and 1. Some values of the output are below 0 or above 1.

Why it hurts
------------
A logit of 0.5 is a probability of 0.62. Samples with a probability between 0.5 and 0.62 are counted as negative, so
accuracy, recall and Dice are wrong, and the model that is selected by them may be the wrong one. Rounded logits above
1.5 are not even class 1.

Evidence
--------
The line of the loss, the range of the outputs, and the function that makes the decision.

Use instead
-----------
    predicted = torch.sigmoid(logits) > 0.5        # or: logits > 0

When it is fine
---------------
Not reported: outputs behind a sigmoid, a threshold of 0, outputs inside 0 and 1, regressions, outputs that are also
compared with other thresholds (a sweep, a calibration), a threshold that is not written as 0.5 in the source, and
decisions that no label is compared with.
"""

import ast
from math import prod
from typing import Final, NamedTuple

from trueloop.event import Operation, Place, RunEnded, StepProgram
from trueloop.event.operation_names import DIFFERENCES, EQUALITIES, JOINS, LOGICAL, ORDERINGS, PRODUCTS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, on_line, statement_at

__all__ = ["LogitsComparedWithHalf"]

HALF: Final = 0.5
MOST: Final = 12  # operations between the model and the decision, and between the decision and the labels
_LOSS: Final = "binary_cross_entropy_with_logits"
_JOINS: Final = JOINS | {"stack"}
_CASTS: Final = VIEWS | {"bool", "byte", "type", "where", "int", "logical_not", "__invert__"}
_SCORES: Final = EQUALITIES | LOGICAL | PRODUCTS | DIFFERENCES | {"logical_xor", "__xor__", "bitwise_and"}

_Output = tuple[int, int, tuple[str, ...]]  # a model, the position of its output, what is cut out of it


class _Decision(NamedTuple):
    event: StepProgram
    function: str
    output: _Output
    smallest: float
    largest: float


class LogitsComparedWithHalf(Rule, code="MOD115", severity=Severity.WARNING):
    not_applicable = "no step or evaluation was recorded"

    def __init__(self) -> None:
        self._losses: dict[_Output, Place | None] = {}
        self._thresholds: dict[_Output, set[float]] = {}
        self._decisions: dict[Place, _Decision] = {}

    def on_step_program(self, event: StepProgram) -> None:
        view = ProgramView(event)
        outputs = {index: (use.model, i) for use in event.models for i, index in enumerate(use.outputs)}
        for operation in view.operations if outputs else ():
            threshold = _threshold(operation)
            if operation.name != _LOSS and threshold is None:
                continue
            output = _output(view, outputs, operation.inputs[0])
            if output is None:
                continue
            if operation.name == _LOSS:
                self._losses.setdefault(output, operation.place)
            elif threshold is not None and not view.in_model(operation):
                self._thresholds.setdefault(output, set()).add(threshold)
                self._keep(event, view, operation, output)

    def _keep(self, event: StepProgram, view: ProgramView, operation: Operation, output: _Output) -> None:
        given = view.values[operation.inputs[0]]
        if operation.place is None or given.smallest is None or given.largest is None:
            return
        if (given.smallest < 0 or given.largest > 1) and _meets_labels(view, operation):
            decision = _Decision(event, operation.name.strip("_"), output, given.smallest, given.largest)
            self._decisions.setdefault(operation.place, decision)

    def on_run_ended(self, ended: RunEnded) -> Findings:
        for place, decision in self._decisions.items():
            output = decision.output
            if output not in self._losses or self._thresholds[output] != {HALF}:
                continue
            rounded = decision.function == "round"
            if not rounded and not _is_written(place):
                continue
            loss = self._losses[output]
            how = "are rounded" if rounded else "are compared with 0.5"
            yield self.finding(
                decision.event,
                f"Logits from {decision.smallest:.3g} to {decision.largest:.3g} {how} without a sigmoid: a logit of "
                f"0.5 is a probability of 0.62. `{_LOSS}`{on_line(loss, place)} reads the same output.",
                fix="Compare `torch.sigmoid(logits)` with 0.5, or the logits with 0.",
                evidence={"loss": loss, "smallest": decision.smallest, "largest": decision.largest,
                          "function": decision.function},
                place=place,
            )  # fmt: skip


def _threshold(operation: Operation) -> float | None:
    """The number that an operation compares a tensor with; rounding compares with 0.5."""
    if len(operation.inputs) != 1 or not operation.outputs:
        return None
    if operation.name == "round":
        return None if operation.options else HALF
    if operation.name not in ORDERINGS or len(operation.options) != 1:
        return None
    try:
        return float(operation.options[0][1])
    except ValueError:  # not a number: a string or a slice
        return None


def _output(view: ProgramView, outputs: dict[int, tuple[int, int]], value: int) -> _Output | None:
    """Which output of which model a value holds, as it is."""
    path: list[str] = []
    for _ in range(MOST):
        if value in outputs:
            return (*outputs[value], tuple(path))
        maker = view.maker(value)
        if maker is None:
            return None if path else _output_of_last_step(view, value)
        if not maker.inputs:
            return None
        if maker.name in _JOINS:
            parts = {_output(view, outputs, part) for part in maker.inputs}
            joined = parts.pop() if len(parts) == 1 else None
            return None if joined is None else (*joined[:2], (*joined[2], *path))
        if maker.name == "__getitem__" and len(maker.inputs) == 1:
            path.insert(0, str(maker.options))
        elif maker.name not in VIEWS - {"long", "int", "dropout", "Dropout"}:
            return None
        value = maker.inputs[0]
    return None


def _output_of_last_step(view: ProgramView, value: int) -> _Output | None:
    """A program ends with `optimizer.step()`, and scores that are computed after it belong to the next program. A value
    with a graph from before it has the size of the model's only output: it is that of the last step. Behind a sigmoid
    it would lie between 0 and 1."""
    before = view.values[value]
    uses = view.program.models
    if before.origin != "outside" or not before.grad or {len(use.outputs) for use in uses} != {1}:
        return None
    same = all(prod(view.values[use.outputs[0]].shape) == prod(before.shape) for use in uses)
    return (uses[0].model, 0, ()) if same and len({use.model for use in uses}) == 1 else None


def _meets_labels(view: ProgramView, operation: Operation) -> bool:
    """Is the decision compared with numbers from 0 to 1 that no model computed?"""
    waiting, seen = list(operation.outputs), set(operation.outputs)
    while waiting and len(seen) < MOST:
        for reader in view.readers.get(waiting.pop(), []):
            others = [index for index in reader.inputs if index not in seen]
            if reader.name in _SCORES and any(_is_label(view, index) for index in others):
                return True
            if reader.name in _CASTS:
                waiting += [index for index in reader.outputs if index not in seen]
                seen.update(reader.outputs)
    return False


def _is_label(view: ProgramView, index: int) -> bool:
    value = view.values[index]
    return index not in view.learned and index in view.from_data and (value.smallest, value.largest) == (0, 1)


def _is_written(place: Place) -> bool:
    """Is 0.5 written in the statement, or given to a name that the statement reads?"""
    source, statement = statement_at(place)
    if statement is None:
        return False
    if any(_is_half(node) for node in ast.walk(statement)):
        return True
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and _is_half(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id in names for target in targets):
                return True
        if isinstance(node, ast.arguments):
            defaults = zip(node.args[::-1], node.defaults[::-1], strict=False)
            if any(argument.arg in names and _is_half(default) for argument, default in defaults):
                return True
    return False


def _is_half(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == HALF
