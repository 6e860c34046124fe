"""DAT136 rows-of-files-out-of-step: row n of one file does not belong to row n of the other.

What it sees
------------
Two data files that the script read go together row by row, and do not fit: a column of one file is in the other one
too, with its rows in a different order; one of two parallel files has lost a line; the lengths of sentences agree with
those of the line before or after; the numbers of one file follow from the columns of the other one, but from rows up
to three before or after; or ids name rows from 1 on, although rows are counted from 0. A cache of features is also
compared with the means and maxima of the rows of an array. Or files of two kinds are read in turn, and one kind is
sorted as text (run1, run10, run11, run2), the other by number.

Why it hurts
------------
Inputs are paired with the targets, features or neighbors of different rows. Everything has the right shape, and the
model learns little or nothing.

Evidence
--------
The two files, the column that both have, and its correlation row by row; the rows of each file.

Use instead
-----------
    deaths = {(row["age"], row["year"]): row["deaths"] for row in rows}      # join by key, not by position
    pairs = zip(sources, targets, strict=True)                               # fails if one file is shorter

When it is fine
---------------
A script that joins the files by key: not reported where it builds a dictionary, merges or sorts. Files of different
kinds that happen to have nearly the same number of rows are not compared, only those of one name (train.src and
train.tgt). Series, in which neighboring rows are alike, are not moved against one another.
"""

import ast
from typing import Final

from trueloop.event import RowsOutOfStep, RunEnded, TablesRead
from trueloop.rules.rule import Finding, Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["RowsOfFilesOutOfStep"]

_JOINS: Final = ("merge", "set_index", "reindex", "argsort", "lexsort", "sort_values", "searchsorted", "sorted", "sort")
"""Functions that bring rows into an order, or find them by key."""


class RowsOfFilesOutOfStep(Rule, code="DAT136", severity=Severity.WARNING):
    not_applicable = "no two data files that go together were read"
    applies_after = (TablesRead,)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], RowsOutOfStep] = {}

    def on_rows_out_of_step(self, event: RowsOutOfStep) -> None:
        tree = source_of(event.place.path if event.place else "").tree
        if event.kind in ("order", "targets") and event.keyed and _joins_by_key(tree):
            return
        if event.kind == "count" and any(
            isinstance(node, ast.keyword) and node.arg == "strict" for node in ast.walk(tree)
        ):
            return
        self._found.setdefault((event.kind, event.file), event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        yield from map(self._report, self._found.values())

    def _report(self, event: RowsOutOfStep) -> Finding:
        evidence: dict[str, object] = {"file": event.file, "other": event.other, "rows": [event.rows, event.others]}
        fix = "Join the two files by a key that both have, or write both in one order."
        if event.kind == "order":
            message = (
                f"Column `{event.column}` of `{event.file}` and `{event.same_column}` of `{event.other}` hold the same "
                f"{event.rows:,} values in a different order (correlation row by row {event.correlation:.2f}): row n "
                f"of one file does not belong to row n of the other."
            )
            evidence |= {"column": event.column, "same column": event.same_column, "correlation": event.correlation}
            if not event.keyed:
                fix = f"Neither has a key to join by: make `{event.other}` again from the rows as they are now."
        elif event.kind == "count":
            message = (
                f"`{event.file}` has {event.rows:,} rows and `{event.other}` {event.others:,}: from the missing row "
                f"on, rows that do not belong together are paired."
            )
            fix = "Find the row that is missing; pair the rows with `zip(..., strict=True)`."
        elif event.kind == "shift":
            first, last = event.lines
            message = (
                f"From line {first} to line {last}, line n of `{event.file}` seems to belong to line n{event.by:+d} of "
                f"`{event.other}`: the lengths correlate {event.correlation:.2f} as they are and {event.moved:.2f} "
                f"after moving."
            )
            fix = "Find the line that is missing or twice; pair the lines with `zip(..., strict=True)`."
            evidence |= {"lines": [first, last], "shift": event.by, "correlation": event.correlation}
        elif event.kind == "targets":
            message = (
                f"Row n of `{event.other}` seems to belong to row n{event.by:+d} of `{event.file}`: a linear probe on "
                f"the columns of the latter correlates {event.correlation:.2f} with `{event.column}` as they are and "
                f"{event.moved:.2f} after moving."
            )
            fix = "Find the row that is missing or twice at the beginning of one file, and write it again."
            evidence |= {"column": event.column, "shift": event.by, "correlation": event.correlation}
        elif event.kind == "files":
            return self._report_files(event)
        else:
            message = (
                f"The ids in `{event.file}` run from 1 to {event.others - 1} and never name row 0 of the "
                f"{event.others:,} "
                f"rows of `{event.other}`: they seem to count from 1, so each names the row after the right one."
            )
            fix = "Subtract 1 from the ids when the file is read, if it counts from 1."
        return self.finding(event, message, fix=fix, evidence=evidence)

    def _report_files(self, event: RowsOutOfStep) -> Finding:
        return self.finding(
            event,
            f"Two kinds of files are read in turn, one in the order of its names as text, the other in that of its "
            f"numbers: `{event.file}` goes with `{event.other}`, and {event.others:,} of {event.rows:,} pairs have "
            f"different numbers.",
            fix="Find the second file of a pair by the name of the first one, or sort both by "
            "`key=lambda path: int(re.search(r'\\d+', path.name)[0])`.",
            evidence={"file": event.file, "other": event.other, "pairs": event.rows, "different": event.others},
        )


def _joins_by_key(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Dict, ast.DictComp)):
            return True
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in (*_JOINS, "dict", "defaultdict"):
                return True
    return False
