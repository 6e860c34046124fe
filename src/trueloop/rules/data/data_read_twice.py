"""DAT137 data-read-twice: a list names a file twice, or rows of one file are in another file too.

What it sees
------------
The files that the script read: a list of files (json, yaml, text) names one of them twice where it names the others
once, or names it for training and for validation; or rows of a file for evaluation (by its name: valid, test, holdout)
are in a file for training too, number by number; or half of the rows of any file, or more, are in another file: one
export under two names. Or rows for evaluation are rows for training but for a little noise: the nearest training row
is an order of magnitude nearer than the nearest one of training rows. Or pairs for evaluation are training pairs the
other way round, with the same label, while no training pair is written both ways.

Why it hurts
------------
A file that is read twice counts twice, and often stands where a different one is missing. Rows in both splits make the
score of the evaluation a score of memory.

Evidence
--------
The list, the file and how often it is named; or the two files and how many rows they share. With noise: the distance
to the nearest training row, and that of training rows to one another, in standard deviations of the columns.

Use instead
-----------
    assert len(set(paths)) == len(paths)
    assert not set(train_paths) & set(valid_paths)

When it is fine
---------------
A file that is listed several times on purpose, to weigh it more: allow it there. Not reported: rows that are often
equal by nature (a few codes); shared rows below one in twenty, or below one half where the names of the files do not
say what they are for; files that are parts of one another by name (all, full, raw, sample, subset, cache). Nor are
rows reported that are near to training rows where training rows are as near to one another (recordings of one person),
where the distances have no gap (a finer grid of the same range), or where both rows have one key (a customer in two
years). Pairs the other way round are not reported where their labels differ (matches at home and away), where nearly
all labels are equal, or where the training file has edges in both directions.
"""

from typing import Final

from trueloop.event import FileListed, RowsCopied, RunEnded, TablesRead
from trueloop.rules.rule import Finding, Findings, Rule, Severity, plural

__all__ = ["DataReadTwice"]

LEAST_SHARE: Final = 0.05  # of the rows of the file for evaluation
LEAST_ROWS: Final = 15
UNNAMED_SHARE: Final = 0.5  # where the names of the files do not say what they are for
RARELY: Final = 0.01  # a row is twice in one file: equal rows are copies
NATURAL: Final = 5.0  # times as many as the training file has copies of its own rows
_MEMORY: Final = "the evaluation on them measures memory."
_TWICE: Final = "they count twice in training, or an evaluation on them measures memory."


class DataReadTwice(Rule, code="DAT137", severity=Severity.WARNING):
    not_applicable = "no list of files, and no two files for training and for evaluation were read"
    applies_after = (TablesRead,)
    explained_by = ("train-validation-overlap", "training-rows-evaluated")

    def __init__(self) -> None:
        self._listed: list[FileListed] = []
        self._copied: list[RowsCopied] = []

    def on_file_listed(self, event: FileListed) -> None:
        self._listed.append(event)

    def on_rows_copied(self, event: RowsCopied) -> None:
        share = event.copies / event.rows
        if not event.named and (share < UNNAMED_SHARE or event.repeated > RARELY):
            return
        if event.copies >= LEAST_ROWS and share >= max(LEAST_SHARE, NATURAL * event.repeated):
            self._copied.append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for listed in self._listed[:3]:
            others = f", and {plural(listed.files - 1, 'other file')} once"
            yield self.finding(
                listed,
                f"`{listed.manifest}` names `{listed.file}` {listed.times} times{others}: its rows count twice, or are "
                "in training and in validation.",
                fix=f"Name each file once in `{listed.manifest}`; look which file is missing in its place.",
                evidence={"list": listed.manifest, "file": listed.file, "times": listed.times, "files": listed.files},
            )
        equal = {(c.file, c.other) for c in self._copied if not c.near[1] and not c.mirrored}
        for copied in self._copied:
            if copied.mirrored:
                yield self._mirrored(copied)
                continue
            if copied.near[1]:
                if (copied.file, copied.other) not in equal:
                    yield self._near(copied)
                continue
            yield self.finding(
                copied,
                f"{copied.copies:,} of the {copied.rows:,} rows of `{copied.other}` are in `{copied.file}` too: "
                + (_MEMORY if copied.named else _TWICE),
                fix=f"Remove the rows of `{copied.other}` from `{copied.file}`, and make the split before any copies.",
                evidence={"file": copied.file, "other": copied.other, "copies": copied.copies, "rows": copied.rows},
            )

    def _near(self, copied: RowsCopied) -> Finding:
        near, apart = copied.near
        return self.finding(
            copied,
            f"About {copied.copies:,} of the {copied.rows:,} rows of `{copied.other}` are rows of `{copied.file}` but "
            f"for a little noise: their nearest row there is {near:.2g} standard deviations away; rows of "
            f"`{copied.file}` are {apart:.2g} from one another. {_MEMORY.capitalize()}",
            fix="Make the split before rows are repeated, augmented or rounded; keep a row and its copies on one side.",
            evidence={"file": copied.file, "other": copied.other, "copies": copied.copies, "rows": copied.rows,
                      "distance": float(f"{near:.3g}"), "distance_of_training_rows": float(f"{apart:.3g}")},
        )  # fmt: skip

    def _mirrored(self, copied: RowsCopied) -> Finding:
        first, second, label = copied.mirrored
        return self.finding(
            copied,
            f"{copied.copies:,} of the {copied.rows:,} pairs of `{copied.other}` are pairs of `{copied.file}` with "
            f"`{first}` and `{second}` exchanged, and the same `{label}`. A symmetric model has seen them: {_MEMORY}",
            fix="Split by unordered pairs: sort the two names of each pair before you split.",
            evidence={"file": copied.file, "other": copied.other, "copies": copied.copies, "rows": copied.rows,
                      "columns": [first, second], "label": label},
        )  # fmt: skip
