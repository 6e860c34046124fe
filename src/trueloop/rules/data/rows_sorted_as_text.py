"""DAT158 rows-sorted-as-text: a series is sorted by its dates or numbers as text, and windows are cut from its rows.

What it sees
------------
A data file that the script read has one row per date or number (1.10.2021, day_10, 10), and its rows are in the order
of the text: 10 before 2. In the order of the values, another column follows from its values before; in the order of
the file it does so far less. The script cuts windows of consecutive rows, or takes differences or means of them, and
does not sort the rows.

Why it hurts
------------
Neighboring rows are not neighbors in time. The model learns to continue a series that does not exist, and the windows
of a file in the right order look different to it.

Evidence
--------
The column, two of its cells in the wrong order, the column that forms the series, and the share of its variance that
the eight values before it give: in the order of the file, and in that of the values.

Use instead
-----------
    rows.sort(key=lambda row: datetime.strptime(row["date"], "%d.%m.%Y"))
    names.sort(key=lambda name: int(re.search(r"\\d+", name)[0]))

When it is fine
---------------
Rows that are used each by itself: then no order is wrong, and nothing is reported. Not reported either: years first
and numbers with leading zeros, whose text has the order of their values; several rows per date; columns that are as
regular in the order of the file; scripts that sort rows or look them up by key.
"""

import ast
from typing import Final

from trueloop.event import RowsSorted, RunEnded, TablesRead
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import called_name, calls_in, source_of

__all__ = ["RowsSortedAsText"]

_SORTS: Final = frozenset(
    ("sort", "sorted", "argsort", "lexsort", "sort_values", "sort_index", "merge", "reindex", "searchsorted", "asfreq",
     "resample", "set_index", "pivot", "date_range", "timedelta")
)  # fmt: skip
_OF_FILES: Final = frozenset(("glob", "rglob", "iterdir", "listdir", "scandir", "set"))
_WINDOWS: Final = frozenset(("unfold", "sliding_window_view", "as_strided", "rolling", "shift", "diff", "ewm"))


class RowsSortedAsText(Rule, code="DAT158", severity=Severity.WARNING):
    not_applicable = "no data file with one row per date or number was read"
    applies_after = (TablesRead,)

    def __init__(self) -> None:
        self._found: dict[str, RowsSorted] = {}

    def on_rows_sorted(self, event: RowsSorted) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        trees = [source_of(path).tree for path in paths]
        if any(map(_cuts_windows, trees)) and not any(map(_sorts_rows, trees)):
            self._found.setdefault(event.file, event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for event in self._found.values():
            one, other = event.cells
            yield self.finding(
                event,
                f"The rows of `{event.file}` are sorted by `{event.column}` as text ({one} before {other}), and the "
                f"script cuts windows from them: in this order the values before give {event.here:.0%} of the variance "
                f"of `{event.series}`, in the order of the values {event.sorted:.0%}.",
                fix=f"Sort the rows by the value of `{event.column}`, not by its text, before windows are cut.",
                evidence={"file": event.file, "column": event.column, "cells": list(event.cells), "rows": event.rows,
                          "series": event.series, "as_it_is": round(event.here, 3), "sorted": round(event.sorted, 3)},
            )  # fmt: skip


def _sorts_rows(tree: ast.Module) -> bool:
    """Names of files and classes may be sorted: that does not move rows."""
    for call in calls_in(tree):
        if called_name(call) in _SORTS:
            inner = {called_name(each) for part in (*call.args, *call.keywords) for each in calls_in(part)}
            if inner.isdisjoint(_OF_FILES):
                return True
    return False


def _cuts_windows(tree: ast.Module) -> bool:
    """Calls that look at neighboring rows, or slices of some rows from a row on that moves by one."""
    if any(called_name(call) in _WINDOWS for call in calls_in(tree)):
        return True
    moving = {name for node in ast.walk(tree) for name in _counted_by_one(node)}
    slices = [node for node in ast.walk(tree) if isinstance(node, ast.Slice)]
    return any(_width_from(each, name) for each in slices for name in moving)


def _counted_by_one(node: ast.AST) -> list[str]:
    """The variable of a loop over a range without steps, or the row of a data set: batches move by more than one."""
    if isinstance(node, ast.FunctionDef) and node.name == "__getitem__":
        return [argument.arg for argument in node.args.args[1:]]
    if not isinstance(node, (ast.For, ast.comprehension)) or not isinstance(node.target, ast.Name):
        return []
    call = node.iter
    counts = isinstance(call, ast.Call) and called_name(call) == "range" and len(call.args) < 3
    return [node.target.id] if counts else []


def _width_from(each: ast.Slice, name: str) -> bool:
    """`i : i + width`, `i - width : i`."""
    ends = [end for end in (each.lower, each.upper) if end is not None]
    named = [any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(end)) for end in ends]
    sums = [isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Add, ast.Sub)) for end in ends for n in ast.walk(end)]
    products = any(isinstance(n, ast.Mult) for end in ends for n in ast.walk(end))
    return len(ends) == 2 and all(named) and any(sums) and not products
