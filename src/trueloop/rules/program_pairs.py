"""Two views of the same samples that were joined to one table of rows: is row i paired with row i + 1, or i + N?"""

from __future__ import annotations

from typing import Final, Literal

from trueloop.event import Operation
from trueloop.event.operation_names import JOINS, RANDOM, RESHAPES
from trueloop.rules.program_view import ProgramView

__all__ = ["joined_views"]

_REORDERS: Final = frozenset({"roll", "flip", "randperm", "sort", "argsort", "topk", "gather", "index_select", "take"})
MOST: Final = 60  # values to follow back


def joined_views(view: ProgramView, table: int) -> Literal["neighbors", "halves"] | None:
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
                return (
                    "neighbors"
                    if view.option(stack, "dim", 1) == "1" and _same_samples(view, stack, rows // 2)
                    else None
                )
    return None


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
    reordered = any(m.name in _REORDERS for m in between) or any(shared.isdisjoint(m.inputs[1:]) for m in picks)
    return bool(shared) and not reordered


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
