"""DAT108 labels-misaligned-with-inputs: inputs and labels do not belong together, so the model cannot learn.

What it sees
------------
Six independent cases.

- Equal inputs with different labels: in the first epoch of a training loader, samples with bit-identical inputs have
  the same label no more often than two random samples.
- Two separate shuffles: the model input comes from one loader, the target of its loss from another, and each shuffles
  in its own order.
- A collate function that sorts: tried with some samples, together and one by one, in a copy of the process, it puts the
  inputs of a batch in a different order, and leaves the labels in the order of the samples.
- Targets that are shifted by a few rows: in the order in which the training data is stored, the predictions of a small
  probe (nearest neighbors and ridge regression, cross-validated) fit the targets of the rows up to 8 before or after
  far better than those of their own rows; in all rows, or in a stretch of them.
- Inputs that were read in the text order of their numbers (img_10 before img_2) while the targets are in numeric order,
  or the reverse: the probe's predictions fit the targets in that order, and not those of their own rows.
- Dense targets (images, masks, series) of other rows: most samples correlate far better with the target of a different
  row than with their own, one to one; hardly any fits its own best.

Labels in an order that has nothing to do with that of the inputs are reported by `labels-unrelated-to-inputs`.

Why it hurts
------------
The model can only learn the label frequencies. The loss falls a little and stops, and the search for the cause goes to
the learning rate and the architecture, where it is not.

Evidence
--------
The number of repeated inputs, how many of them had the same label, and how many are expected by chance; or the two
loaders; or the shift, and the correlations of the probe's predictions with the targets with and without it.

Use instead
-----------
    loader = DataLoader(TensorDataset(inputs, labels), shuffle=True)      # one dataset of pairs: one order for both
    inputs.repeat_interleave(4, 0), labels.repeat_interleave(4)           # repeat both in the same way

When it is fine
---------------
Not reported: noisy labels, which agree far more often than by chance; short or discrete inputs (fewer than 16 non-zero
values, or indices), which repeat with different labels for good reasons; custom samplers (episodes of few-shot learning
relabel images); sequences; batches of more than inputs and labels; two loaders whose generators have the same seed;
a collate function that also returns the order in which it sorted;
dense targets that fit their own samples, or none; targets that are inputs of a later row, and targets of later
rows in a series: a forecast. In a series only targets of
earlier rows are reported, and only if the fit has a sharp peak there.
"""

from math import sqrt
from typing import Final

from trueloop.event import (
    CollatedApart,
    LabelsCompared,
    LoadersOutOfSync,
    PairsMatched,
    ReorderedTargets,
    ShiftedPart,
    StoredOrderCompared,
)
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts, plural

__all__ = ["LabelsMisalignedWithInputs"]

REPEATED: Final = 20  # Repeated inputs needed to rule out a coincidence
MOST_AGREEMENT: Final = 0.3
"""Agreement beyond chance, as a share of the possible, that must be ruled out. With 20% wrong labels it is 0.36 for two
classes, 0.6 for ten."""

DISTANCES: Final = 8  # to each side
LEAST_SCORE: Final = 0.25  # correlation of predictions and targets
SIGMAS: Final = 8.0
ALONE: Final = 0.35  # of the best score: no other distance reaches it
RELATED: Final = 0.5  # correlation of a column with itself in the next row; more: a series
LATE_SCORE: Final = 0.7
STEP: Final = 0.05
SHARPER: Final = 3.0
PART: Final = 0.6
OTHERS: Final = 0.15  # of the rows that are expected to find their target among those that were examined
FEWEST: Final = 40  # such rows
OWN: Final = 0.25  # of them: rows whose own target fits
CHANCE: Final = 4  # times as many as of mirrored targets
SERIES: Final = 0.3  # share of one distance: a forecast, whose target is an input further on


class LabelsMisalignedWithInputs(Rule, code="DAT108", severity=Severity.WARNING):
    not_applicable = "no loader yielded inputs with class labels"

    def __init__(self) -> None:
        self._repeated = 0
        self._checked = False

    def why_not_checked(self) -> str:
        return "" if self._checked else f"only {self._repeated} inputs repeated, too few to compare their labels"

    def on_labels_compared(self, event: LabelsCompared) -> Findings:
        self._repeated += event.repeated
        if event.repeated < REPEATED or event.classes < 2:
            return
        self._checked = True
        share = event.agreed / event.repeated
        doubt = 2 * sqrt(max(share, event.expected) * (1 - max(share, event.expected)) / event.repeated)
        if (share + doubt - event.expected) / (1 - event.expected) > MOST_AGREEMENT:
            return
        yield self.finding(
            event,
            f"Only {event.agreed:,} of {event.repeated:,} repeated inputs have the same label again ({share:.0%}); "
            f"random labels give {event.expected:.0%}.",
            fix="Check where inputs and labels are joined: every sort, repeat or shuffle must apply to both.",
            evidence=facts(
                event,
                "samples repeated_inputs=repeated same_label=agreed expected_by_chance classes",
                expected_by_chance=round(event.expected * event.repeated, 1),
            ),
        )

    def on_collated_apart(self, event: CollatedApart) -> Findings:
        self._checked = True
        if not event.wrong or self.count("collate") > 1:
            return
        yield self.finding(
            event,
            f"`{event.collate}` puts the inputs of a batch in a different order and not the labels: {event.moved} of "
            f"{event.rows} inputs move, {event.wrong} get the label of another sample.",
            fix="Index every part of the batch with the same order: `labels = labels[order]`; or sort the list of "
            "samples before it is unzipped.",
            evidence=facts(event, "collate rows moved wrong_labels=wrong"),
        )

    def on_loaders_out_of_sync(self, event: LoadersOutOfSync) -> Findings:
        self._checked = True
        yield self.finding(
            event,
            "The model input and the loss target come from two loaders that shuffle separately: "
            f"inputs of {event.samples:,} samples get the labels of other samples.",
            fix="Put both into one dataset, `TensorDataset(inputs, labels)`, and shuffle that.",
            evidence=facts(
                event,
                "input_loader=inputs target_loader=targets samples_in_each=samples",
                "batches inputs_drawn_at=inputs_place",
            ),
        )

    def on_stored_order_compared(self, event: StoredOrderCompared) -> Findings:
        self._checked = True
        own, best = event.scores[DISTANCES], max(event.scores)
        if event.shift and not event.copied and (_stands_alone(event) or _is_late(event)):
            yield self._shifted(event, "The targets", event.shift, best, own, event.rows)
        if event.reordered is not None:
            yield from self._reordered(event, event.reordered)
        part = event.part
        if part is not None and event.related <= RELATED and _is_part(part):
            where = f"From row {part.first} to row {part.last} of {event.stored}, the targets"
            yield self._shifted(event, where, part.shift, part.score, part.own, part.rows)

    def on_pairs_matched(self, event: PairsMatched) -> Findings:
        self._checked = True
        expected = event.rows * event.rows / max(1, event.stored)
        if (
            event.others < max(FEWEST, OTHERS * expected, CHANCE * event.by_chance)
            or event.own > OWN * event.others
            or event.shifted > SERIES
        ):
            return
        shown = ", ".join(f"the target of row {row} is stored at row {there}" for row, there in event.examples[:2])
        yield self.finding(
            event,
            f"{event.others} of {event.rows} samples fit the target of a different row far better than their own "
            f"(correlation {event.fit:.2f}, own {event.own_fit:.2f}), one to one: {shown}. Inputs and targets are "
            "stored in different orders.",
            fix="Sort both lists of files by one key: text order puts `run_10` before `run_2`; use "
            "`key=lambda p: int(p.stem.split('_')[1])`, or join inputs and targets by their names.",
            evidence={"rows": event.rows, "fit_others": event.others, "fit_own": event.own,
                      "by_chance": event.by_chance, "examples": [list(pair) for pair in event.examples]},
        )  # fmt: skip

    def _reordered(self, event: StoredOrderCompared, found: ReorderedTargets) -> Findings:
        clear = found.score >= LEAST_SCORE and found.score * sqrt(found.rows) >= SIGMAS
        if not clear or abs(found.own) > ALONE * found.score:
            return
        row, there = found.example
        yield self.finding(
            event,
            f"Inputs and targets are stored in different orders, {found.order}: a probe's predictions correlate "
            f"{found.own:.2f} with the targets of their own rows and {found.score:.2f} with those in that order; the "
            f"target of row {row} is stored at row {there}.",
            fix="Sort both by one key: text order puts `img_10` before `img_2`; use "
            "`key=lambda name: int(name.split('_')[1])`, or join inputs and targets by their names.",
            evidence={"order": found.order, "own": round(found.own, 3), "in_that_order": round(found.score, 3),
                      "rows": found.rows, "stored_rows": event.stored},
        )  # fmt: skip

    def _shifted(
        self, event: StoredOrderCompared, what: str, shift: int, score: float, own: float, rows: int
    ) -> Finding:
        count = plural(abs(shift), "row")
        direction = f"{count} earlier" if shift > 0 else f"{count} later"
        return self.finding(
            event,
            f"{what} are shifted against the inputs: a probe's predictions correlate {own:.2f} with the targets of "
            f"their own rows and {score:.2f} with those stored {count} {'further on' if shift > 0 else 'before'}, so "
            f"each target belongs to the inputs {direction}.",
            fix="Look for a lost or added line (a header, a first record) in the file of the inputs or of the targets, "
            f"and for a delay in the recording; drop {count} at one end of each so that they match.",
            evidence={"shift": shift, "own": round(own, 3), "shifted": round(score, 3), "rows": rows,
                      "stored_rows": event.stored},
        )  # fmt: skip


def _stands_alone(event: StoredOrderCompared) -> bool:
    """One distance fits and no other one does, in rows that are not a series."""
    best = max(event.scores)
    others = max(abs(score) for index, score in enumerate(event.scores) if index - DISTANCES != event.shift)
    clear = best >= LEAST_SCORE and best * sqrt(event.rows) >= SIGMAS and others <= ALONE * best
    return clear and (event.shift > 0 or event.related <= RELATED)


def _is_late(event: StoredOrderCompared) -> bool:
    """In a series: targets of earlier rows. Those of later rows are a forecast."""
    best, own = max(event.scores), event.scores[DISTANCES]
    kink = event.kinks[event.shift + DISTANCES]
    others = max(abs(k) for i, k in enumerate(event.kinks) if abs(i - DISTANCES - event.shift) > 1)
    clear = best >= LATE_SCORE and best - own >= STEP and kink >= max(STEP, SHARPER * others)
    return event.shift > 0 and clear and event.halves == (event.shift, event.shift)


def _is_part(part: ShiftedPart) -> bool:
    clear = part.score * sqrt(part.rows) >= SIGMAS and part.score >= PART * part.elsewhere >= PART * LEAST_SCORE
    return clear and part.own <= ALONE * part.score
