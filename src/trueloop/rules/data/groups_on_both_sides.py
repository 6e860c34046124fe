"""DAT157 groups-on-both-sides: rows of the same patients are for training and for validation, and the patient gives the
label.

What it sees
------------
A data file that the script read names a patient, subject, speaker, animal, lesion or recording in each row, and a
split (two files, a column, lists of rows, folds) puts rows of the same ones on both sides. Two measurements show that
it does harm: the label is the same in all rows of a group, and the training row that is nearest to a row for validation
is from its own group far above chance.

Also without a name: in the inputs of a model (a table of 4 to 64 columns, one tensor) at least three columns with many
values are equal in the same pairs of rows, as age, height and resting pulse are in the rows of one patient; other
columns differ. The groups are small (up to 20 rows in the mean), most evaluated rows are from groups of the training,
the numbers of rows in evaluation are those of a split drawn row by row, and what a probe that was fitted to other
groups leaves over is alike in two rows of one group.

Why it hurts
------------
The model recognizes the patient and knows the label. The score of the validation is that of memory: it chooses the
epoch, the settings and the model that remember best, and is far above the score on new patients.

Evidence
--------
The column, how many groups are on both sides, the rows for validation that are from them, the share of the rows that
have the label of their group, and the share whose nearest training row is from their group, beside chance.

Use instead
-----------
    folds = GroupKFold(5).split(x, y, groups=patients)
    held_out = rng.permutation(numpy.unique(patients))[:50]
    valid = numpy.isin(patients, held_out)

When it is fine
---------------
A model for known patients: not reported where the rows for validation are the later ones of each patient, where each
patient gives as many of them, where labels vary within patients, and in scripts that learn an embedding of the column
or group the rows themselves. Without a name: not reported for larger groups (stations, shops), pairs of things that
both come again (users and items), and a split that takes the later rows, or as many, of each group. Shops, products,
stations, users and devices, which the model meets again, are not looked at. If the score is meant for known patients,
allow it at the line that reads the file.
"""

import re
from typing import Final

from trueloop.event import GroupsRecognized, GroupsShared, RunEnded, TablesRead
from trueloop.rules.rule import Findings, Rule, Severity, facts
from trueloop.usercode.source import source_of

__all__ = ["GroupsOnBothSides"]

_GROUPS_ITSELF: Final = re.compile(
    r"GroupKFold|GroupShuffle|StratifiedGroup|LeaveOneGroup|PGroupsOut|groupby|\bisin\(|setdiff1d|unique\(|intersection"
)
_EMBEDDING: Final = re.compile(r"\bEmbedding(Bag)?\(")


class GroupsOnBothSides(Rule, code="DAT157", severity=Severity.WARNING):
    not_applicable = "no data file with a split was read, and no table of numbers was trained on and evaluated"
    applies_after = (TablesRead, GroupsRecognized)
    explained_by = ("train-validation-overlap", "training-rows-evaluated", "data-read-twice")

    def __init__(self) -> None:
        self._found: dict[str, GroupsShared] = {}
        self._recognized: dict[str, GroupsRecognized] = {}

    def on_groups_shared(self, event: GroupsShared) -> None:
        paths = {*event.modules, event.place.path if event.place else ""}
        text = "\n".join(line for path in paths for line in source_of(path).lines)
        named = re.search(rf"\b{re.escape(event.column)}\b", text) is not None
        if not (named and (_GROUPS_ITSELF.search(text) or _EMBEDDING.search(text))):
            self._found.setdefault(event.column, event)

    def on_groups_recognized(self, event: GroupsRecognized) -> None:
        if event.columns:
            self._recognized.setdefault(event.name, event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for event in self._found.values():
            yield self.finding(
                event,
                f"{event.rows:,} of the {event.others:,} rows of `{event.other}` are from {event.groups:,} groups by "
                f"`{event.column}` that `{event.file}` has rows of too. `{event.label}` is the same in "
                f"{event.constant:.0%} of the rows of a group, and {event.own:.0%} of these rows are nearest to a "
                f"training row of their own group (by chance {event.chance:.1%}): the score measures memory.",
                fix=f"Split by `{event.column}`: all rows of a group on one side (GroupKFold, or a permutation of the "
                "groups).",
                evidence={"file": event.file, "other": event.other, "column": event.column, "groups": event.groups,
                          "rows": [event.rows, event.others], "label": event.label,
                          "label_of_group": round(event.constant, 3), "nearest_in_group": round(event.own, 3),
                          "by_chance": round(event.chance, 4)},
            )  # fmt: skip
        for recognized in self._recognized.values() if not self._found else ():
            yield self.finding(
                recognized,
                f"{recognized.rows:,} of {recognized.others:,} evaluated rows are from {recognized.groups:,} groups "
                f"that training rows are from too: {recognized.columns} columns are equal in all rows of a group "
                f"(about {recognized.size:.1f} training rows each), and no two groups share them. What the inputs do "
                f"not tell about the target is alike in a group (correlation {recognized.alike:.2f}): the score "
                "measures memory.",
                fix="Split by the group (patient, trip, recording): all of its rows on one side (GroupKFold, or a "
                "permutation of the groups).",
                evidence=facts(recognized, "columns groups rows others", rows_of_a_group=round(recognized.size, 2),
                               alike=round(recognized.alike, 3), standard_errors=round(recognized.certain, 1)),
            )  # fmt: skip
