"""DAT142 invariant-broken-in-one-file: what holds in every row of one file does not hold in another file of its kind.

What it sees
------------
The data files that the script opened are read once more at the end of the run. Relations that hold exactly in all rows
of a file are compared with a second file that has the same columns: a column that is never above another (start
and end), the sum or the product of two others, an amount that follows a setting of its row (samples and sampling
rate), the number of each name (label codes). Also the order of rows: those of each user or machine are sorted by a code
in one file, and by time, or not by that code, in the other. Also tables that give each id its labels, one row for each:
in one part of the ids exactly one row is left, and these rows are distributed as the first ones of the other ids. Also
lists of files (wav, png, npy) with a sampling rate, a size or a length that the headers of the files contradict, where
they agree with another list.

Why it hurts
------------
One of the files was written, joined or sorted differently. The script reads both in the same way, so one of them has a
different meaning: box corners exchanged, labels renamed, events of a user in the order of their codes, all labels but
the first lost.

Evidence
--------
The columns, what holds in one file and what holds in the other, with the number or share of rows.

Use instead
-----------
    rows = sorted(rows, key=lambda row: (row["user"], row["time"]))
    assert (boxes[:, 0] <= boxes[:, 2]).all()
    tags = tags.drop_duplicates(["document", "tag"])       # by the whole key, not by the document alone

When it is fine
---------------
Not reported: relations that break in fewer than 20 % of the rows (an order of two columns: 60 %); that rows paired at
random would keep; fewer than 100 rows; columns that the script does not name although it names the others. Order is
reported only where the model reads sequences and nothing is sorted in the script. A part of the data that has one label
for each id on purpose, the first by name: allow it at the line that reads the table.
"""

import re
from typing import Final

from trueloop.event import InvariantBroken, RunEnded, TablesRead
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.source import source_of

__all__ = ["InvariantBrokenInOneFile"]

_READS_SEQUENCES: Final = re.compile(r"GRU|LSTM|RNN|Transformer|Attention|scaled_dot_product|causal|Conv1d")
_SORTS: Final = re.compile(r"sort", re.IGNORECASE)
_FIXES: Final = {
    "order": "Compare what the two columns mean in each file: exchanged columns, a size in place of a corner?",
    "sum": "Compare how the columns are computed in each file, and compute them in one way.",
    "product": "Compare how the columns are computed in each file, and compute them in one way.",
    "code": "Make the numbers of both files from one list of names.",
    "ratio": "Write the true setting of each row into the second file: it looks like a default value.",
    "sorted": "Write the file again in the order of time, or keep the time and sort by it when it is read.",
    "header": "Write the list again from the headers of the files, or read the headers in the script.",
    "first": "Write the table again; remove duplicates by both columns, not by the id alone.",
}


class InvariantBrokenInOneFile(Rule, code="DAT142", severity=Severity.WARNING):
    not_applicable = "no two data files with the same columns were read"
    applies_after = (TablesRead,)

    def __init__(self) -> None:
        self._found: dict[tuple[str, tuple[str, ...]], InvariantBroken] = {}

    def on_invariant_broken(self, event: InvariantBroken) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        text = "\n".join(line for path in paths for line in source_of(path).lines)
        if event.kind == "sorted" and (_SORTS.search(text) or not _READS_SEQUENCES.search(text)):
            return
        if event.kind == "code" and event.columns[1] in text and event.columns[0] not in text:
            return  # it reads the names, not their numbers
        self._found.setdefault((event.kind, event.columns), event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for event in self._found.values():
            yield self.finding(
                event,
                f"`{event.other}` contradicts `{event.file}`: in `{event.file}`, {event.here}; in `{event.other}`, "
                f"{event.there}.",
                fix=_FIXES[event.kind],
                evidence={"columns": list(event.columns), "file": event.file, "here": event.here, "other": event.other,
                          "there": event.there},
            )  # fmt: skip
