"""DAT140 column-looks-ahead: a column is computed from later rows than it may know.

What it sees
------------
The data files that the script opened are read once more at the end of the run. A column is computed exactly from the
rows around it of another column (a moving average or sum, a difference, a shift by some rows, of up to 24 rows), in two
files with the same columns or in two parts of one file. In one of them it needs rows that come later than in the other:
a centered window instead of a trailing one, a shift in the wrong direction. Series of several items in one file are
distinguished by a column that names the item.

In training inputs that are stored in the order of time, without any file: one column is the target of an earlier row,
so this is a forecast, and another column is computed exactly from targets of its own row or of later ones.

Why it hurts
------------
The column holds the future, often the target itself. Training and validation on that file look very good; the file that
was written as the rows came in, live or for the test, does not have that knowledge.

Evidence
--------
The column, the column that it is computed from, and in each file the last row that it needs (1 is the next row).

Use instead
-----------
    load.shift(1).rolling(7).mean()              # the seven rows before this one
    load.rolling(7)                              # never center=True for an input

When it is fine
---------------
Not reported: a column that is not computed exactly from another column (99.9 % of its variance) in both files; files
whose rows run in opposite directions; columns that the script does not name although it names the others; smooth
series, in which any rows give the others; columns that are a target of a later row themselves.
"""

from trueloop.event import FutureInColumn, LaterRowsUsed, RunEnded, StoredOrderCompared, TablesRead
from trueloop.rules.rule import Findings, Rule, Severity, plural

__all__ = ["ColumnLooksAhead"]


class ColumnLooksAhead(Rule, code="DAT140", severity=Severity.WARNING):
    not_applicable = "no two data files with the same columns were read, nor a series of inputs and targets"
    applies_after = (TablesRead, StoredOrderCompared)

    def __init__(self) -> None:
        self._found: dict[str, LaterRowsUsed] = {}

    def on_later_rows_used(self, event: LaterRowsUsed) -> None:
        self._found.setdefault(event.column, event)

    def on_future_in_column(self, event: FutureInColumn) -> Findings:
        if self.count(event.place) > 1:
            return
        yield self.finding(
            event,
            f"Input column {event.column} of {event.columns} (from 0) is computed exactly from targets up to that of "
            f"{_row(event.last)}. The inputs otherwise know the targets up to that of {_row(event.known)}: this column "
            "holds what is to be forecast.",
            fix="Compute moving averages and other windows from earlier rows only: no `center=True`, no "
            '`np.convolve(..., mode="same")`; shift the column.',
            evidence={"column": event.column, "columns": event.columns, "last_target": event.last,
                      "known_target": event.known, "rows": event.rows},
        )  # fmt: skip

    def on_run_ended(self, _: RunEnded) -> Findings:
        for event in self._found.values():
            source = self._found.get(event.source)
            if source is not None and source.source == event.column and source.last > event.last:
                continue  # the same relation, seen from its other end
            series = f" (for each `{event.group}`)" if event.group else ""
            yield self.finding(
                event,
                f"Column `{event.column}` of `{event.file}` is computed from later rows than in `{event.other}`: "
                f"`{event.file}` uses `{event.source}` up to {_row(event.last)}{series}, `{event.other}` up to "
                f"{_row(event.other_last)}. It holds what is still unknown where the model is used.",
                fix="Compute the column in both files from the same rows, none of them later than its own "
                "(`.shift(1).rolling(7)`, without `center=True`), or leave it out of the inputs.",
                evidence={"column": event.column, "computed from": event.source, "file": event.file,
                          "last row": event.last, "other": event.other, "last row there": event.other_last},
            )  # fmt: skip


def _row(last: int) -> str:
    if last == 0:
        return "its own row"
    return f"{plural(abs(last), 'row')} {'after' if last > 0 else 'before'} its own"
