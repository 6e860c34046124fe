"""Two views of the same samples that were joined to one table of rows: is row i paired with row i + 1, or i + N?"""

from __future__ import annotations

from typing import Final, Literal

from trueloop.event import Operation
from trueloop.event.operation_names import (
    ANY_ADDITION,
    ANY_SCALING,
    ANY_SUBTRACTION,
    JOINS,
    MATRIX_PRODUCTS,
    RANDOM,
    RESHAPES,
    TRANSPOSES,
    VIEWS,
)
from trueloop.rules.program_view import ProgramView

__all__ = ["compares_rows_with_themselves", "joined_views"]

_REORDERS: Final = frozenset({"randperm", "take"})
_REORDERS_ALONG: Final = {"gather": 1, "index_select": 1, "flip": 1, "roll": 2, "sort": 1, "argsort": 1, "topk": 2}
"""name -> the position of the dimension: cuts in time and flips of pictures leave the samples in their order."""
_MASKS: Final = ANY_ADDITION | ANY_SUBTRACTION | ANY_SCALING | VIEWS | TRANSPOSES | {
    "t", "T", "mT", "fill_diagonal_", "masked_fill", "masked_fill_", "exp", "log_softmax", "softmax", "where", "clamp",
}  # fmt: skip
_SIDES: Final = VIEWS | TRANSPOSES | {"t", "T", "mT", "normalize"}
MOST: Final = 60  # values to follow back

Layout = Literal["neighbors", "halves"]


def joined_views(view: ProgramView, table: int) -> Layout | None:
    """From where the rows of a square table of similarities come; None where it is not certain."""
    rows = view.values[table].shape[0]
    for value in list(view.behind(table))[:MOST]:
        maker = view.maker(value)
        if maker is None or view.values[value].shape[:1] != (rows,):
            continue
        if maker.name in JOINS and len(maker.inputs) == 2 and (view.option(maker, "dim", 1) or "0") == "0":
            return "halves" if _same_samples(view, maker, rows // 2) else None
        if maker.name in RESHAPES and maker.inputs:
            stack = view.maker(maker.inputs[0])
            if stack is not None and stack.name == "stack" and len(stack.inputs) == 2:
                layout: Layout | None = {"0": "halves", "1": "neighbors"}.get(view.option(stack, "dim", 1) or "0")  # type: ignore[assignment]
                return layout if _same_samples(view, stack, rows // 2) else None
    return None


def compares_rows_with_themselves(view: ProgramView, table: int) -> bool:
    """Every row of a square table belongs to the sample of the same column: `z @ z.T`, of rows of data."""
    product: Operation | None = None
    for _ in range(12):
        product = view.maker(table)
        if product is None or product.name in MATRIX_PRODUCTS or product.name in ("einsum", "linear", "cdist"):
            break
        learned = [index for index in product.inputs if index in view.learned]
        if product.name not in _MASKS or len(learned) != 1:
            return False
        table = learned[0]
    sides = () if product is None else product.inputs
    rows = view.values[table].shape[0]
    if len(sides) != 2 or table not in view.from_data or view.values[sides[0]].shape[:1] != (rows,):
        return False  # z.T @ z compares columns
    roots = {_side(view, index) for index in sides}
    return len(roots) == 1 and roots <= view.learned and view.values[roots.pop()].shape[:1] == (rows,)


def _side(view: ProgramView, value: int) -> int:
    for _ in range(12):
        maker = view.maker(value)
        if maker is None or maker.name not in _SIDES or not maker.inputs:
            return value
        value = maker.inputs[0]
    return value


def _same_samples(view: ProgramView, join: Operation, rows: int) -> bool:
    """Both parts were computed from the same rows of data, in one order: picked with one index, or the same batch."""
    if any(view.values[part].shape[:1] != (rows,) for part in join.inputs) or join.inputs[0] == join.inputs[1]:
        return False
    one, other = (set(view.behind(part)) for part in join.inputs)
    shared = {
        index
        for index in one & other
        if view.values[index].shape[:1] == (rows,) and view.values[index].origin != "parameter" and _varies(view, index)
    }
    between = [maker for index in (one ^ other) if (maker := view.maker(index)) is not None]
    picks = [m for m in between if m.name == "__getitem__" and any(_is_index(view, i, rows) for i in m.inputs[1:])]
    reordered = any(_reorders(view, m) for m in between) or any(shared.isdisjoint(m.inputs[1:]) for m in picks)
    return bool(shared) and not reordered


def _reorders(view: ProgramView, operation: Operation) -> bool:
    """It may change the order of the samples: not where it is sure to run along another dimension."""
    if operation.name in _REORDERS:
        return True
    position = _REORDERS_ALONG.get(operation.name)
    if position is None:
        return False
    given = dict(operation.options)
    text = given.get("dim", given.get("dims", given.get("axis", given.get(str(position)))))
    if operation.name in ("sort", "argsort", "topk") and text is None:
        text = "-1"
    rank = len(view.values[operation.inputs[0]].shape) if operation.inputs else 0
    numbers = [part.strip() for part in (text or "").strip("()").split(",") if part.strip()]
    return not numbers or not all(n.lstrip("-").isdigit() and rank and int(n) % rank for n in numbers)


def _varies(view: ProgramView, index: int) -> bool:
    """Data, or an index that picks rows of data; not a constant, and not noise that both parts share."""
    value, maker = view.values[index], view.maker(index)
    if value.constant:
        return False
    return _is_index(view, index, value.shape[0]) or (
        view.is_data(index) and (maker is None or maker.name not in RANDOM)
    )


def _is_index(view: ProgramView, index: int, rows: int) -> bool:
    return view.values[index].dtype == "int64" and view.values[index].shape == (rows,)
