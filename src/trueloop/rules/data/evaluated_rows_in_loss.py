"""DAT133 evaluated-rows-in-loss: the loss covers all rows, also the rows held out for evaluation.

What it sees
------------
In recorded steps the loss compares the outputs for all rows with the whole tensor of labels; nothing selects rows or
weights them on the way to the loss. In a recorded evaluation a mask, an index or a slice, which the script calls
validation or test, selects a part of the same labels. Graph networks, whose forward needs all nodes, are trained so.

Why it hurts
------------
The model is trained on the labels of the nodes that it is evaluated on. The test accuracy is that of training, and
nothing says how the model does on nodes with unknown labels.

Evidence
--------
The number of rows in the loss, and the line that selects the evaluated rows.

Use instead
-----------
    loss = F.cross_entropy(out[train_mask], y[train_mask])

When it is fine
---------------
Not reported: a loss of selected rows, per-row losses that are multiplied with a mask or weights, labels that are set to
`ignore_index` outside of the training rows, and masks that no name calls validation or test (groups, classes).
"""

import ast
from collections.abc import Iterator
from typing import Final

from trueloop.event import Operation, Place, StepProgram, Value
from trueloop.event.operation_names import PICKS, PRODUCTS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, facts, on_line, statement_at
from trueloop.usercode.names import says_held_out, words_of
from trueloop.usercode.source import Source, called_name, calls_in

__all__ = ["EvaluatedRowsInLoss"]

PART: Final = 0.95  # of the rows: with more, nothing is held out
LEAST: Final = 16  # rows
_SELECTS: Final = PICKS | {"masked_select", "index"}
_MASKS: Final = PRODUCTS | {"__and__", "logical_and", "where"}

_Labels = tuple[int, float, float, float]  # rows, smallest, largest, mean


class EvaluatedRowsInLoss(Rule, code="DAT133", severity=Severity.ERROR):
    not_applicable = "no training step was recorded"

    def __init__(self) -> None:
        self._trained: dict[_Labels, tuple[StepProgram, Place | None]] = {}
        self._selected: set[_Labels] = set()  # labels of which some loss had a part only

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        if event.phase == "training":
            for operation, _, target in view.comparisons:
                if not view.on_loss_path.isdisjoint(operation.outputs) and event.complete:
                    self._train(view, operation, target)
            return
        for labels, selection in _selections(view):
            known = self._trained.get(labels)
            if known is None or labels in self._selected or not _is_held_out(selection.place):
                continue
            yield self.finding(
                event,
                f"The loss covers all {labels[0]} rows of the labels, also the rows held out and selected"
                f"{on_line(selection.place, known[1])} for evaluation: the score is measured on labels that were "
                "trained on.",
                fix="Select the training rows in the loss: `F.cross_entropy(out[train_mask], y[train_mask])`.",
                evidence=facts(event, rows_in_loss=labels[0], selected_at=selection.place),
                place=known[1],
            )

    def _train(self, view: ProgramView, operation: Operation, target: int) -> None:
        labels = _labels(view, target)
        if labels is None:
            source = _selected_from(view, target)
            if source is not None and (part := _labels(view, source)) is not None:
                self._selected.add(part)
        elif _selects_later(view, operation, labels[0]):
            self._selected.add(labels)
        elif any(view.values[index].shape[:1] == (labels[0],) for index in view.predictions):
            self._trained.setdefault(labels, (view.program, operation.place))


def _labels(view: ProgramView, value: int) -> _Labels | None:
    """A whole tensor from before the step, by what is known of it."""
    found: Value = view.values[view.through_views(value)]
    if found.origin != "outside" or not found.shape or found.shape[0] < LEAST or found.constant:
        return None
    if found.smallest is None or found.largest is None or found.mean is None:
        return None
    return found.shape[0], found.smallest, found.largest, found.mean


def _selects_later(view: ProgramView, operation: Operation, rows: int) -> bool:
    """Rows are selected or weighted in the loss function or between it and the loss."""
    inside = [view.values[index] for index in operation.inputs[2:]]
    if any(value.shape[:1] == (rows,) for value in inside):
        return True
    waiting, seen = list(operation.outputs), set(operation.outputs)
    while waiting:
        for reader in view.readers.get(waiting.pop(), []):
            others = [index for index in reader.inputs if index not in view.learned]
            sized = any(view.values[index].shape[:1] == (rows,) for index in others)
            if reader.name in _SELECTS or sized:
                return True
            new = [index for index in reader.outputs if index not in seen]
            seen.update(new)
            waiting += new
    return False


def _selected_from(view: ProgramView, value: int) -> int | None:
    maker = view.maker(view.through_views(value))
    return maker.inputs[0] if maker is not None and maker.name in _SELECTS and maker.inputs else None


def _selections(view: ProgramView) -> Iterator[tuple[_Labels, Operation]]:
    """Comparisons of which only a part of the rows is read: the labels, and the operation that selects."""
    for operation, _, target in view.comparisons:
        source = _selected_from(view, target)
        labels = _labels(view, target if source is None else source)
        if labels is None:
            continue
        if source is not None:
            maker = view.maker(view.through_views(target))
            if maker is not None and _is_part(view, maker, labels[0]):
                yield labels, maker
            continue
        for reader in (reader for output in operation.outputs for reader in view.readers.get(output, [])):
            if reader.name in (*_SELECTS, *_MASKS) and _is_part(view, reader, labels[0]):
                yield labels, reader


def _is_part(view: ProgramView, selection: Operation, rows: int) -> bool:
    taken = _rows_of(view, selection, rows)
    return taken is not None and 0 < taken < PART * rows


def _rows_of(view: ProgramView, selection: Operation, rows: int) -> int | None:
    """How many rows it keeps; None if it does not select rows by something from before the evaluation."""
    for index in selection.inputs[1:]:
        value = view.values[index]
        if value.origin == "outside" and value.dtype == "bool" and value.shape == (rows,) and value.mean is not None:
            return round(value.mean * rows)
        if value.origin == "outside" and value.dtype == "int64" and len(value.shape) == 1:
            return value.shape[0]
    texts = [text for _, text in selection.options]
    if selection.name == "__getitem__" and len(texts) == 1 and texts[0].startswith("slice(") and selection.outputs:
        return view.values[selection.outputs[0]].shape[0]
    return None


def _is_held_out(place: Place | None) -> bool:
    """The index, or what is given for it where it is a parameter of a function, is called validation or test."""
    source, statement = statement_at(place)
    if statement is None:
        return False
    used = [node for node in ast.walk(statement) if isinstance(node, ast.Subscript)]
    names = [name for node in used for name in _names(node.slice)]
    names += [n for node in ast.walk(statement) if isinstance(node, ast.BinOp) for n in _names(node)]
    function = source.enclosing_function(statement.lineno)
    if function is not None:
        parameters = [argument.arg for argument in function.args.args]
        positions = {parameters.index(name) for name in names if name in parameters}
        for call in calls_in(source.tree):
            if called_name(call) == function.name:
                names += _argument_names(source, call, positions, {parameters[position] for position in positions})
    return any(says_held_out(words_of(name)) for name in names)


def _argument_names(source: Source, call: ast.Call, positions: set[int], names: set[str]) -> Iterator[str]:
    for position, argument in enumerate(call.args):
        if position in positions or position + 1 in positions:  # a method has `self` before
            yield from _names(argument)
    for keyword in call.keywords:
        if keyword.arg in names:
            yield from _names(keyword.value)


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
