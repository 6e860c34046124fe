"""DAT114 feature-reveals-target: one feature alone gives the target, and the others do not.

What it sees
------------
Over the sampled training rows, one feature of the model's input is a copy or an encoding of the target: some class has
one single value there, or wide gaps separate the classes, or the class is given by whether a counter, a code or an
amount has its most frequent value (0 letters sent, 0.00 paid out) or any other, or its correlation with an amount is
above 0.9999. No other feature comes near. In a file of texts with labels: the first or second word alone gives the
label, and the other words give it clearly less often (a mark that was set together with the label).

In a data file that the script reads: a count (calls, orders, reminders) that was taken after the outcome. The other
columns lead to the outcome: they are unrelated to one another, and oppose one another inside of a class, as causes do.
The count gives the outcome better than all of them, is related to what they predict, and is not inside of a class: it
follows from the outcome. Measurements of the state that the causes lead to (wear, before a failure) may stand beside
them, if they are still related to the causes inside of a class.

Why it hurts
------------
A column that is filled in after the fact (a refund date, a diagnosis code, a running total that includes the label)
makes every score look excellent. In use that column is empty, and the model has learned nothing else.

Evidence
--------
The feature, how well it gives the target, the margin between the classes, and the best of the other features. Of a
count: its area under the ROC curve beside that of the other columns together, its correlation with what they predict,
over all rows and inside of the classes.

Use instead
-----------
    features = [name for name in columns if name not in ("target", "refund_amount")]

When it is fine
---------------
Not reported: features that only correlate, thresholds without a gap between the classes (`y = x[:, 0] > 0`), classes
that lie apart but spread, data in which several features separate the classes, made-up data in which all features are
alike, fewer than 200 different rows, and texts whose other words give the label nearly as well. Of
counts: tables of measurements of one state, in which columns are related inside of a class or all follow from the
class; counts that are among the causes; measured quantities and test results, which may decide a diagnosis. If the
column is known before the answer is needed, allow it.
"""

from typing import Final

from trueloop.event import Column, ConsequenceCounted, InputsSummarized, TextMarked
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["FeatureRevealsTarget"]

PREDICTS: Final = 0.995
MARGIN: Final = 0.02
CORRELATION: Final = 0.9999
WIDE: Final = 0.5  # margin, of two classes, where every class spreads
PINNED: Final = 0.05
CODES: Final = 12  # distinct values of a column that is a code
MOSTLY: Final = 0.85  # above the majority, for a column with hardly more values than classes
FILLED: Final = 0.8  # above the majority, for a column that is empty or not
FILLED_AND_PREDICTS: Final = 0.7  # the same, if its value nearly gives the class
NEARLY: Final = 0.9
MOST_OF_ROWS: Final = 0.05  # distinct values
AMOUNTS: Final = 32  # distinct values: with more, the fact exists only for columns that are mostly empty
WEAK: Final = 0.5  # best other feature, beside such a column
LEAST_ROWS: Final = 200
ALIKE: Final = 0.15  # of the spread
OTHERS: Final = 0.9  # best other feature; more: the problem is easy
MAJORITY: Final = 0.98


class FeatureRevealsTarget(Rule, code="DAT114", severity=Severity.WARNING):
    not_applicable = "no table of features went into a model with a loss per row"

    def __init__(self) -> None:
        self._marked = False

    def on_text_marked(self, event: TextMarked) -> Findings:
        if self._marked:
            return
        self._marked = True
        words = ", ".join(f"`{word}`" for word in event.words)
        yield self.finding(
            event,
            f"The first words of the texts in `{event.file}` give the label of {event.found:.1%} of {event.rows:,} "
            f"rows "
            f"({words}); the other words give {event.rest:.1%}, the most frequent label {event.chance:.1%}. They may "
            "have been set together with the label.",
            fix="Find out where these words come from. If they are added after the label is known, remove them.",
            evidence={"file": event.file, "column": event.text, "label": event.label, "words": list(event.words),
                      "given": round(event.found, 3), "rest": round(event.rest, 3)},
        )  # fmt: skip

    def on_consequence_counted(self, event: ConsequenceCounted) -> Findings:
        yield self.finding(
            event,
            f"Column `{event.column}` of `{event.file}` seems to be counted after the outcome `{event.label}`: alone "
            f"it gives the outcome better (AUC {event.area:.3f}) than all others together (AUC {event.others:.3f}). "
            f"Its correlation with what these predict is {event.related:.2f} in all rows, but {event.given:.2f} inside "
            "of the classes. The others behave like causes of the outcome, this one like a consequence.",
            fix="Find out when this column is counted. If that is after the outcome, leave it out, or count only up to "
            "the time of the prediction.",
            evidence=facts(event, "file column label rows area others related given causes opposed"),
        )  # fmt: skip

    def on_inputs_summarized(self, event: InputsSummarized) -> Findings:
        if event.phase != "training" or event.kind != "features" or len(event.shape) != 2 or len(event.columns) < 3:
            return
        if event.distinct_rows < LEAST_ROWS:
            return
        scores = [_score(column, event) for column in event.columns]
        best = max(range(len(scores)), key=lambda index: scores[index])
        column, others = event.columns[best], max(s for i, s in enumerate(scores) if i != best)
        filled = _is_filled(column, event) and others <= WEAK
        if (scores[best] < 1 and not filled) or others >= OTHERS or _are_alike(event.columns):
            return
        if column.predicts is not None:
            how = f"gives the class of {column.predicts:.1%} of {event.distinct_rows} training rows"
        else:
            how = f"correlates {column.correlation:.5f} with the target of {event.distinct_rows} training rows"
        yield self.finding(
            event,
            f"Feature {best} alone {how}; the best other feature explains {others:.0%} of that. It may contain the "
            "answer.",
            fix="Find out when this column is filled in. If that is after the target is known, remove it from the "
            "features.",
            evidence={"feature": best, "predicts": column.predicts, "correlation": column.correlation,
                      "margin": round(column.margin, 4), "best_other": round(others, 3), "rows": event.distinct_rows},
        )  # fmt: skip


def _are_alike(columns: tuple[Column, ...]) -> bool:
    """All columns have the same distribution, as `torch.randn` and `torch.randint` make them."""
    first = columns[0]
    spread = ALIKE * max(first.deviation, 1e-12)
    return all(
        abs(column.mean - first.mean) <= spread
        and abs(column.deviation - first.deviation) <= spread
        and abs(column.low - first.low) <= 2 * spread
        and abs(column.high - first.high) <= 2 * spread
        and max(column.distinct, first.distinct) <= 4 * min(column.distinct, first.distinct)
        for column in columns
    )


def _is_filled(column: Column, event: InputsSummarized) -> bool:
    """A counter, a code or an amount: whether it has its most frequent value gives the class."""
    few = column.distinct <= MOST_OF_ROWS * event.distinct_rows or column.distinct > AMOUNTS
    if column.by_default is None or not few or event.majority >= MAJORITY:
        return False
    least = FILLED_AND_PREDICTS if _score(column, event) >= NEARLY else FILLED
    return (column.by_default - event.majority) / (1 - event.majority) >= least


def _score(column: Column, event: InputsSummarized) -> float:
    """1 or more: it gives the target. Of classes: how far above the majority, with a gap between the classes."""
    majority = event.majority
    if column.predicts is not None:
        if majority >= MAJORITY:
            return 0.0
        above = max(0.0, column.predicts - majority) / (1 - majority)
        needed = (PREDICTS - majority) / (1 - majority)
        encoded = column.margin >= MARGIN and column.pinned >= PINNED
        apart = column.margin >= WIDE / max(1, event.classes - 1)
        encoded = encoded or (column.margin >= MARGIN and column.distinct <= CODES)
        copy = encoded and above >= MOSTLY and column.distinct <= 2 * event.classes  # an encoding with some errors
        return 1.0 if copy or (above >= needed and (encoded or apart)) else min(above, 0.99)
    if column.correlation is not None:
        return 1.0 if abs(column.correlation) >= CORRELATION else min(abs(column.correlation), 0.99)
    return 0.0
