"""DAT127 labels-coded-in-two-ways: a stretch of the training rows has its labels in a different code than the rest.

What it sees
------------
The training data in the order in which it is stored. A small probe model (nearest neighbors and ridge regression) that
is fitted to the other rows predicts the labels of a stretch of rows. Two cases:

- it is wrong nearly everywhere there, and right after the codes were exchanged one to one (each 2 is what is called 1
  elsewhere);
- all rows of the stretch have one label, though their inputs look like the same mix of labels as the other rows.

Why it hurts
------------
Files of two annotators, centres or exports were joined, which number the classes from 0 and from 1, list them in a
different order, or mean the opposite. For equal inputs the model is taught two answers.

Evidence
--------
The stretch, the codes with those of the other rows, and how often the probe is right there, with and without renaming,
and elsewhere.

Use instead
-----------
    names = sorted({row["label"] for file in files for row in file})     # one list of names, for all files
    code = {name: number for number, name in enumerate(names)}

When it is fine
---------------
Not reported: stretches of fewer than 80 rows, labels that are merely noisy or harder to predict in a stretch, data that
is sorted by class, a stretch of one class whose inputs look like that class or unlike all others (hard negatives), and
data whose labels cannot be predicted by a simple probe.
"""

from typing import Final

from trueloop.event import ConstantPart, RenamedPart, StoredOrderCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["LabelsCodedInTwoWays"]

AGREE: Final = 0.55
NEARLY: Final = 0.75  # of the other rows' share
WRONG: Final = 0.5  # of the share after renaming
ABOVE: Final = 0.25  # chance, elsewhere
RECALL: Final = 0.75  # elsewhere
LOST: Final = 0.75  # of that
APART: Final = 0.12
SHOWN: Final = 4


class LabelsCodedInTwoWays(Rule, code="DAT127", severity=Severity.WARNING):
    not_applicable = "no training data with labels was read in its stored order"

    def on_stored_order_compared(self, event: StoredOrderCompared) -> Findings:
        renamed, constant = event.renamed, event.constant
        if renamed is not None and _is_renamed(renamed, event.classes):
            pairs = ", ".join(f"{there:g} for {elsewhere:g}" for there, elsewhere in renamed.codes[:SHOWN])
            yield self.finding(
                event,
                f"Rows {renamed.first} to {renamed.last} of {event.stored} have labels in a different code than the "
                f"others: {pairs}. A probe of the other rows gives {renamed.own:.0%} of their labels, after renaming "
                f"{renamed.score:.0%}; elsewhere {renamed.elsewhere:.0%}.",
                fix="Number the labels of all files with one list of names, and check where codes start (0 or 1).",
                evidence={"rows": [renamed.first, renamed.last], "codes": [list(pair) for pair in renamed.codes],
                          "right": round(renamed.own, 3), "right_after_renaming": round(renamed.score, 3),
                          "right_elsewhere": round(renamed.elsewhere, 3)},
            )  # fmt: skip
        elif constant is not None and _is_wrongly_constant(constant):
            yield self.finding(
                event,
                f"All rows {constant.first} to {constant.last} of {event.stored} have label {constant.code:g}, but "
                f"their inputs look like the same mix of labels as the other rows: a probe takes "
                f"{constant.recall:.0%} of them for {constant.code:g}, elsewhere {constant.elsewhere:.0%} of the rows "
                "with this label.",
                fix="Check the coding of the labels in the file of these rows (1 and 2, or words, instead of 0 and 1).",
                evidence={"rows": [constant.first, constant.last], "label": constant.code,
                          "taken_for_it": round(constant.recall, 3), "elsewhere": round(constant.elsewhere, 3)},
            )  # fmt: skip


def _is_renamed(part: RenamedPart, classes: int) -> bool:
    good = part.elsewhere >= 1 / max(2, classes) + ABOVE
    return good and part.score >= max(AGREE, NEARLY * part.elsewhere) and part.own <= WRONG * part.score


def _is_wrongly_constant(part: ConstantPart) -> bool:
    return part.elsewhere >= RECALL and part.recall <= LOST * part.elsewhere and part.apart <= APART
