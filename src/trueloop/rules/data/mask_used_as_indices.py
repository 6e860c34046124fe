"""DAT154 mask-used-as-indices: a mask of zeros and ones is read as row numbers, so only rows 0 and 1 are picked.

What it sees
------------
In recorded steps or evaluations, a tensor is indexed by integers that are all 0 or 1 and as many as it has rows. The
integers are a boolean mask that was converted (`mask.long()`), or they come as they are from the script or its data and
either pick the rows of two tensors (predictions and targets) or are called a mask in the code.

Why it hurts
------------
Integers are positions: row 0 is read once for every 0 and row 1 once for every 1. The loss or the metric has the length
of the data and still knows two rows of it. It falls quickly, because two rows are easy to learn.

Evidence
--------
The shapes of the tensor and of the mask, the share of ones, and the number of recorded programs that show it.

Use instead
-----------
    mask = mask.bool()
    loss = F.cross_entropy(out[mask], y[mask])

When it is fine
---------------
Not reported: boolean masks, tables with two rows, indices of a different length than the table (labels that pick
prototypes, binary features that pick embeddings), indices that were computed (`argmin`, `randint`, `topk`), and
`gather`.
"""

import ast
from typing import Final

from trueloop.event import Operation, Place, StepProgram
from trueloop.event.operation_names import PICKS, VIEWS
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Findings, Rule, Severity, plural, statement_at

__all__ = ["MaskUsedAsIndices"]

ROWS: Final = 16  # that a table has at least: in a short one, numbers may be 0 and 1 by chance
SAMPLED: Final = 2  # recorded programs that must show it
_INTEGERS: Final = frozenset({"int64", "int32", "int16", "int8"})
_MASKS: Final = ("mask", "keep", "valid", "select", "flag")  # words of names


class MaskUsedAsIndices(Rule, code="DAT154", severity=Severity.ERROR):
    not_applicable = "no step was recorded"

    def on_step_program(self, event: StepProgram) -> Findings:
        view = ProgramView(event)
        picks = [operation for operation in event.operations if _reads_mask(view, operation)]
        seen: set[Place | None] = set()
        for operation in picks:
            source, mask = (view.values[index] for index in operation.inputs)
            if operation.place in seen or not _is_a_mask(view, operation, picks):
                continue
            seen.add(operation.place)
            if self.count(operation.place) != SAMPLED:
                continue
            ones = "" if mask.mean is None else f" ({mask.mean:.0%} ones)"
            yield self.finding(
                event,
                f"A mask of {plural(mask.shape[0], 'integer')}{ones} is used as row numbers of a tensor "
                f"{list(source.shape)}: rows 0 and 1 are read {mask.shape[0]:,} times, and no other.",
                fix="Index with a boolean mask: `mask.bool()`.",
                evidence={"tensor": list(source.shape), "mask": list(mask.shape), "dtype": mask.dtype,
                          "share_of_ones": mask.mean, "recorded_programs": SAMPLED},
                place=operation.place,
            )  # fmt: skip


def _reads_mask(view: ProgramView, operation: Operation) -> bool:
    """Rows are picked by as many integers as there are rows, and all of them are 0 or 1."""
    if operation.name not in PICKS or len(operation.inputs) != 2 or not operation.outputs:
        return False
    source, mask = (view.values[index] for index in operation.inputs)
    dim = _picked_dim(operation)
    if mask.dtype not in _INTEGERS or not mask.shape or dim is None or (mask.smallest, mask.largest) != (0.0, 1.0):
        return False
    return mask.shape[0] >= ROWS and source.shape[dim : dim + len(mask.shape)] == mask.shape


def _picked_dim(operation: Operation) -> int | None:
    """The dimension that the integers count; None: unknown."""
    text = dict(operation.options).get("1", "")
    if operation.name == "index_select":
        text = dict(operation.options).get("dim", text)
        return int(text) if text.isdigit() else None
    if not text or text.startswith("(tensor"):
        return 0
    return 1 if text.startswith("(slice(None, None, None), tensor") else None


def _is_a_mask(view: ProgramView, operation: Operation, picks: list[Operation]) -> bool:
    """The integers were a boolean mask, or pick rows of two tensors outside of models, or have the name of a mask."""
    index = operation.inputs[1]
    maker = view.maker(index)
    while maker is not None and maker.name in VIEWS and maker.inputs:
        index = maker.inputs[0]
        if view.values[index].dtype == "bool":
            return True
        maker = view.maker(index)
    if maker is not None:
        return False  # computed: positions
    memory = view.values[index].memory
    others = {
        view.values[other.inputs[0]].memory
        for other in picks
        if view.values[other.inputs[1]].memory == memory and other.model < 0
    }
    return len(others) > 1 or _is_called_a_mask(operation.place)


def _is_called_a_mask(place: Place | None) -> bool:
    """`x[train_mask]`, `x.index_select(0, keep)` in the statement of this line."""
    _, statement = statement_at(place)
    indices: list[ast.AST] = []
    for node in () if statement is None else ast.walk(statement):
        if isinstance(node, ast.Subscript):
            indices.append(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "index_select":
            indices += node.args
    names = [_name(part) for index in indices for part in ast.walk(index)]
    return any(word in name.lower() for name in names for word in _MASKS)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
