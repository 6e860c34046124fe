"""DAT112 validation-inputs-differ: a feature has a different location or scale in evaluation than in training.

What it sees
------------
The inputs of a model are sampled in training and in evaluation. For some features, or for all of them, the mean moved
by many standard deviations, or the spread is several times larger or smaller. Mean and percentiles must agree on it.
Half of that is enough for one feature among others that stay, if the model's outputs, which agree with the targets of
training rows, no longer do in evaluation. A feature in larger units (inches for millimetres) is also recognized after
normalization: it has the same shape, varies at least eight times less, and lies where no training row lies.

Where the model has learned the training rows and knows nothing about the evaluated ones, any difference counts: a
small probe tells evaluated rows from training rows, by their numbers, by the means along each dimension or by the
spectrum along the last one (a different sample rate, resolution or order has the same mean and spread).

Two mistakes of a normalization are recognized in exact statistics, however small the difference is:

- All training rows together have mean 0 and deviation 1, and so has each single evaluated batch by itself: the function
  that normalizes takes the statistics of whatever it is given.
- All columns of the training rows have exactly deviation 1, and means far from 0, while those of evaluated rows are 0:
  the training rows were centered twice, for example in place in `fit` and again in `transform`.

Why it hurts
------------
The model is evaluated on numbers that it never saw: a column in other units, normalization in one phase only, or
statistics of a different data set. The score says nothing about the model.

Evidence
--------
For each such feature: mean and standard deviation in both phases.

Use instead
-----------
    mean, std = train.mean(0), train.std(0)
    train, valid = (train - mean) / std, (valid - mean) / std     # the same numbers in both phases

When it is fine
---------------
Not reported: shifts below six standard deviations (a later year, a different site), rare large values, features that
hardly vary in training or are mostly one value, single features that cover a small part of their training range or go
on where it ends (one site, the last weeks), rows that a probe tells apart but the model predicts, random augmentation,
validation rows that are random draws, training data that change during the run so that the latest rows are like the
evaluated ones (states that a policy has visited since), groups that are each standardized by themselves in both phases,
rows that are divided by their deviation and centered in neither phase, and fewer than 48 rows in either phase. A test
on shifted data is meant to differ: allow it there.
"""

from math import sqrt
from typing import Final, Literal

from trueloop.event import (
    AnswersCompared,
    Column,
    InputsSummarized,
    RowsCompared,
    RunEnded,
    StepProgram,
    TableStandardized,
)
from trueloop.rules.program_view import ProgramView
from trueloop.rules.rule import Finding, Findings, Rule, Severity, plural

__all__ = ["ValidationInputsDiffer"]

LEAST_ROWS: Final = 48
SHIFT: Final = 6.0  # standard deviations of training
RATIO: Final = 6.0  # of the spreads
NARROW: Final = 30.0
HALF: Final = 0.5
STAYS: Final = 0.75  # standard deviations that the other features may move
FEWEST: Final = 3  # features
LOST: Final = 0.4  # correlation of outputs and targets, in evaluation less than in training
AWAY: Final = 1.5  # standard deviations: a feature in larger units lies in a small place beside the others
SMALL: Final = 8.0  # how much less it varies there
ALIKE: Final = 0.35  # standard deviations: difference of the percentiles of one shape
FLAT: Final = 4.0  # standard deviations from end to end: a counter or a time, which continues where training ended
SHOWN: Final = 4
BATCHES: Final = 5  # evaluated ones: a few test sets may each be standardized by themselves
PARTS: Final = 10  # of the training rows, in the largest of them
WIDTH: Final = 1.3  # at most, between deviations that are equal but for chance
ERRORS: Final = 6.0  # standard errors of a mean
KEEP: Final = (
    "Prepare both phases the same way: the same units, and normalization with the statistics of the training data."
)
LEARNED: Final = 0.6  # correlation of outputs and targets on training rows
NOTHING: Final = 0.15  # on evaluated rows
AREA: Final = 0.9  # under the ROC curve of a probe


class ValidationInputsDiffer(Rule, code="DAT112", severity=Severity.WARNING):
    not_applicable = "no model was given numbers both in training and in evaluation"
    explained_by = ("inputs-stretched-in-evaluation",)

    def __init__(self) -> None:
        self._training: dict[tuple[int, int], InputsSummarized] = {}
        self._evaluation: dict[tuple[int, int], InputsSummarized] = {}
        self._interactive: set[int] = set()
        self._lost: set[int] = set()  # models that fail on evaluated rows
        self._answers: dict[int, AnswersCompared] = {}
        self._tables: dict[int, TableStandardized] = {}
        self._rows: dict[int, int] = {}  # distinct training rows: a few say little, however often they were seen

    def on_rows_compared(self, event: RowsCompared) -> None:
        self._rows[event.model] = event.training_rows

    def on_answers_compared(self, event: AnswersCompared) -> None:
        self._answers[event.model] = event
        if event.training is not None and event.training - max(0.0, event.relation) >= LOST:
            self._lost.add(event.model)

    def on_table_standardized(self, event: TableStandardized) -> None:
        self._tables[event.model] = event

    def on_step_program(self, event: StepProgram) -> None:
        """In a rollout a model's answers decide its next inputs: they may go anywhere."""
        if event.phase == "evaluation":
            view = ProgramView(event)
            used = [use.model for use in event.models if not view.learned.isdisjoint(use.inputs)]
            self._interactive.update(used)

    def on_inputs_summarized(self, event: InputsSummarized) -> None:
        phase = self._training if event.phase == "training" else self._evaluation
        phase[event.model, event.position] = event

    def on_run_ended(self, _: RunEnded) -> Findings:
        found = list(self._summaries())
        yield from found
        if not found:
            found = [finding for table in self._tables.values() for finding in self._standardized(table)]
            yield from found
        if not found:
            yield from self._told_apart()

    def _standardized(self, event: TableStandardized) -> Findings:
        evaluated = self._evaluation.get((event.model, 0))
        if event.model in self._interactive or evaluated is None or evaluated.distinct_rows < LEAST_ROWS:
            return
        facts = {"training_rows": event.rows, "columns": event.columns, "evaluated_batches": event.batches}
        if event.own and event.batches >= BATCHES and event.batch_rows * PARTS <= event.rows:
            yield self.finding(
                event,
                f"Each of {event.batches} evaluated batches was standardized by its own statistics (mean 0, deviation "
                f"1 in all {plural(event.columns, 'feature')}); the training rows all together, by those of all "
                f"{event.rows:,} rows. Differences between batches are lost in evaluation only.",
                fix=KEEP,
                evidence=facts | {"rows_of_largest_batch": event.batch_rows},
            )
            return
        standard = all(_is_standard(column, evaluated.distinct_rows) for column in evaluated.columns)
        if standard and not event.centered and event.columns >= FEWEST and event.away > HALF * event.columns:
            yield self.finding(
                event,
                f"The training rows have deviation 1 in all {event.columns} features, but {event.away} of them have a "
                f"mean far from 0 (typically {event.offset:.2g}); here all have mean 0 and deviation 1. The training "
                "rows were probably centered twice.",
                fix="Look for an operation in place where the statistics are computed (`x.sub_(mean)`, `x -= mean`): "
                "it changes the rows that are normalized again later.",
                evidence=facts | {"shifted_features": event.away, "typical_mean": event.offset},
            )

    def _told_apart(self) -> Findings:
        for model, event in self._answers.items():
            rows, learned = event.apart, event.training
            if rows is None or rows.area < AREA or event.moved or model in self._interactive:
                continue
            if learned is None or learned < LEARNED or event.relation > NOTHING:
                continue
            if (key := (model, 0)) in self._evaluation and self._evaluation[key].noise:
                continue  # random draws, which mean nothing
            noun = "frequency band" if rows.view == "spectrum" else "number"
            yield self.finding(
                event,
                f"A probe tells evaluated rows from training rows by their {rows.view} (AUC {rows.area:.2f}); "
                f"{noun} {rows.position} of {rows.width} has {rows.mean:.3g} ± {rows.deviation:.2g} in training and "
                f"{rows.mean_there:.3g} ± {rows.deviation_there:.2g} here. The outputs of `{event.name}` correlate "
                f"{learned:.2f} with targets that it was trained on and {event.relation:.2f} with these.",
                fix="Compare how the two phases were recorded and prepared: sample rate, resolution, units, order of "
                "channels and columns.",
                evidence={"auc": round(rows.area, 3), "view": rows.view, noun: rows.position,
                          "training": [rows.mean, rows.deviation], "evaluation": [rows.mean_there,
                                                                                 rows.deviation_there]},
            )  # fmt: skip

    def _summaries(self) -> Findings:
        for key, evaluation in self._evaluation.items():
            training = self._training.get(key)
            if key[0] in self._interactive or training is None:
                continue
            rows = min(training.rows, self._rows.get(key[0], training.rows))
            if min(rows, evaluation.rows) >= LEAST_ROWS:
                yield from self._compare(training, evaluation)

    def _compare(self, training: InputsSummarized, evaluation: InputsSummarized) -> Findings:
        if training.shape[1:] != evaluation.shape[1:] or training.kind != evaluation.kind:
            return
        differing = self._differing(training, training.columns, evaluation.columns)
        if differing and len(training.late_columns) == len(training.columns):
            late = {index for index, _, _ in self._differing(training, training.late_columns, evaluation.columns)}
            differing = [each for each in differing if each[0] in late]
        if differing:
            yield self._report(training, evaluation, differing)

    def _differing(
        self, training: InputsSummarized, columns: tuple[Column, ...], evaluated: tuple[Column, ...]
    ) -> list[tuple[int, Column, Column]]:
        pairs = list(enumerate(zip(columns, evaluated, strict=True)))
        narrow = [index for index, (one, other) in pairs if _is_narrow(one, other)]
        all_narrow = len(narrow) == len(pairs) and (len(pairs) > 1 or training.kind == "channels")
        moved = sum(not _stays(one, other) for _, (one, other) in pairs)
        alone = len(pairs) >= FEWEST and moved == 1 and training.model in self._lost
        least = HALF if alone else 1.0
        differing = [(index, one, other) for index, (one, other) in pairs if all_narrow or _size(one, other) >= least]
        if not differing and len(pairs) >= FEWEST and 1 <= moved <= HALF * len(pairs):
            rescaled = [(index, one, other) for index, (one, other) in pairs if _is_rescaled(one, other)]
            differing = rescaled if len(rescaled) == moved else []
        return differing

    def _report(
        self, training: InputsSummarized, evaluation: InputsSummarized, differing: list[tuple[int, Column, Column]]
    ) -> Finding:
        index, one, other = max(differing, key=lambda item: _size(item[1], item[2]))
        noun = "channel" if training.kind == "channels" else "feature"
        which = (
            f"All {plural(len(training.columns), noun)} differ" if len(differing) == len(training.columns)
            else f"{plural(len(differing), noun)} of {len(training.columns)} differ"
        ) if len(training.columns) > 1 else "The inputs differ"  # fmt: skip
        return self.finding(
            evaluation,
            f"{which} between training and evaluation; {noun} {index} has {one.mean:.4g} ± {one.deviation:.4g} in "
            f"training and {other.mean:.4g} ± {other.deviation:.4g} here.",
            fix=KEEP,
            evidence={
                f"{noun} {i}": f"{a.mean:.4g} ± {a.deviation:.4g} -> {b.mean:.4g} ± {b.deviation:.4g}"
                for i, a, b in differing[:SHOWN]
            }
            | {"training_at": training.place, "training_rows": training.rows, "evaluation_rows": evaluation.rows},
        )


def _is_standard(column: Column, rows: int) -> bool:
    """Mean 0 and deviation 1, as rows like the training rows have after a normalization with its statistics."""
    return abs(column.mean) <= ERRORS * column.deviation / sqrt(rows) and 1 / WIDTH <= column.deviation <= WIDTH


def _is_judged(one: Column) -> bool:
    """It varies in training, and is neither a category nor mostly one value."""
    return one.distinct >= 5 and one.high - one.low > 1e-6 * max(abs(one.mean), 1e-12)


def _size(one: Column, other: Column) -> float:
    """1 at the threshold. Mean and percentiles must agree, so that rare large values do not count."""
    if not _is_judged(one):
        return 0.0
    width, width_there = one.high - one.low, other.high - other.low
    moved = min(abs(other.mean - one.mean), abs(other.high + other.low - one.high - one.low) / 2)
    shift = moved / max(one.deviation, width / 2) / SHIFT
    wider = min(width_there / width, other.deviation / one.deviation) / RATIO
    return max(shift, wider)


def _stays(one: Column, other: Column) -> bool:
    scale = max(one.deviation, (one.high - one.low) / 2)
    ratio = other.deviation / one.deviation if one.deviation > 0 else 1.0
    return abs(other.mean - one.mean) <= STAYS * scale and 0.5 <= ratio <= 1.5


def _is_narrow(one: Column, other: Column) -> bool:
    """It varies far less. One such feature is a part of the data; all of them together are another scale."""
    if not _is_judged(one) or other.distinct < 5 or other.deviation <= 0:
        return False
    width_there = other.high - other.low
    return width_there > 0 and min((one.high - one.low) / width_there, one.deviation / other.deviation) >= NARROW


def _is_rescaled(one: Column, other: Column) -> bool:
    """Numbers of one shape, many times smaller than in training, in a place where training has none.

    A time or a level of prices continues where the training rows end: the gap must be as wide as all values there."""
    if not _is_judged(one) or other.distinct < LEAST_ROWS / 2 or other.deviation <= 0:
        return False
    small = min((one.high - one.low) / max(other.high - other.low, 1e-12), one.deviation / other.deviation) >= SMALL
    gap = max(one.smallest - other.largest, other.smallest - one.largest)
    flat = any(column.largest - column.smallest < FLAT * column.deviation for column in (one, other))
    empty = gap >= (3 if flat else 1) * (other.largest - other.smallest)
    alike = all(abs(_relative(one, end) - _relative(other, end)) <= ALIKE for end in ("low", "high"))
    return small and empty and alike and abs(other.mean - one.mean) >= AWAY * one.deviation


def _relative(column: Column, end: Literal["low", "high"]) -> float:
    value = column.low if end == "low" else column.high
    return (value - column.mean) / column.deviation
