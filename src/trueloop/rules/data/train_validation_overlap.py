"""DAT101 train-validation-overlap: a model is measured on samples that it was trained on.

What it sees
------------
Samples are recognised by their bits: some of those that a model is only called on, over a pass with no backward, went
through a backward and a step of the same model before. Rows that the data holds twice by nature are allowed for: the
more training rows have a twin in training, the more may have one here. Loaders over subsets of one dataset are also
compared by the numbers they draw.

Why it hurts
------------
The model has seen the answers. The measured loss and accuracy are too good by an amount that nobody knows, and early
stopping, the choice of a model and every number in a report follow them.

Evidence
--------
Evaluated rows looked at, how many of them had been trained on, how many twins the data itself has, the share of
training rows that were looked at, and the lines of both loaders.

Use instead
-----------
    train, valid = random_split(dataset, [0.8, 0.2], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train, batch_size=64, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=64)

Split before rows are repeated, cut into windows or augmented.

When it is fine
---------------
Not reported: accuracy on the training set itself (the same loader, the same dataset, or all of its rows), or on a part
of it beside a real validation; features of all the data, from which no score is taken; folds of a cross-validation,
each with a model or an optimizer of its own; tables of few values, where equal rows are no wonder; rows that are
evaluated first and trained on later.

Batches that a script cuts out of its tensors by hand are not seen. Training rows that are augmented are never twice the
same: then only loaders over parts of one dataset can be compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, final

from trueloop.event import BatchInspected, EpochStarted, Place, RowsShared, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["TrainValidationOverlap"]

ROWS: Final = 4
"""Evaluated rows that must have been trained on: fewer may be twins."""
SHARE: Final = 0.02
"""Of the evaluated rows: public datasets have up to one row in a hundred that stands in both of their parts."""
SIGMAS: Final = 4.0
"""Deviations that a count must lie beyond what chance gives."""
TWINS: Final = 2.0
"""... after twins are allowed for so many times: how many there are is itself only measured."""
WHOLE: Final = 0.98
"""Share from which all evaluated rows are training rows: the rest was changed on the way."""
UNSEEN: Final = 5.0
"""Pairs of twins that may well have been there where none was met: chance hides more of them once in a hundred and
fifty times."""
MEASURED: Final = 100
"""Evaluated rows whose own twins can stand for those of a training set that is drawn with repetition."""
EXPECTED: Final = 10.0
"""Rows that must be expected to come back in a second pass before one can say that none ever does."""


@dataclass(slots=True)
class _Side:
    """What one loader brought to a model, in one life of it."""

    first: BatchInspected
    rows: dict[int, int] = field(default_factory=dict)
    """Each row, and the step at which it was first met."""
    pass_one: Counter[int] = field(default_factory=Counter)
    last: int = 0
    """The last step at which one of its batches was drawn."""
    scored: bool = False

    def add(self, batch: BatchInspected, step: int) -> None:
        for row in batch.rows:
            self.rows.setdefault(row, step)
        if batch.passes == 1:
            self.pass_one.update(batch.rows)
        self.last = max(self.last, batch.step)
        self.scored = self.scored or batch.scored

    def twins(self) -> float:
        """Share of the rows of one pass that come more than once."""
        return sum(count for count in self.pass_one.values() if count > 1) / max(1, self.pass_one.total())


@dataclass(frozen=True, slots=True)
class _Overlap:
    """How much of an evaluation was trained on."""

    rows: int
    known: int
    by_nature: float
    """Rows of those that would be known if nothing leaked, by the twins that were met."""
    unseen: float
    """... and by twins that may have been there and were not met."""
    coverage: float
    """Share of the training rows that were looked at."""
    whole: bool
    """All evaluated rows are training rows, or may well be."""
    part: bool
    """They are fewer than the training rows."""
    everything: bool
    """All training rows are among them, or may well be, and no score was taken: the whole data is described, not
    judged."""
    by_numbers: bool = False

    @property
    def share(self) -> float:
        """Of the evaluated rows, if all training rows had been looked at."""
        return min(1.0, max(0.0, self.known - self.by_nature) / max(1, self.rows) / max(self.coverage, 1e-9))

    @property
    def is_certain(self) -> bool:
        if self.by_numbers:
            return self.share >= SHARE
        limit = TWINS * self.by_nature + SIGMAS * math.sqrt(self.by_nature) + self.unseen
        return self.known >= ROWS and self.known > limit and self.share >= SHARE

    def is_on_purpose(self, *, beside_another: bool) -> bool:
        """Accuracy on the training set, or on a part of it beside an evaluation on other rows; features of all the
        data."""
        return self.everything or (self.whole and (beside_another or not self.part))


_Story = tuple[int, int]
"""(life, model)"""


@final
class TrainValidationOverlap(Rule):
    code = "DAT101"
    name = "train-validation-overlap"
    severity = Severity.ERROR
    not_applicable = "no batch of a loader was trained on"

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int, int], list[BatchInspected]] = {}
        """Of each pass, by loader, life and pass."""
        self._starts: dict[int, list[int]] = {}
        self._shared: dict[tuple[int, int], RowsShared] = {}
        self._because = self.not_applicable

    def on_batch_inspected(self, batch: BatchInspected) -> None:
        self._batches.setdefault((batch.loader, batch.optimizers_built, batch.passes), []).append(batch)

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._starts.setdefault(event.loader, []).append(event.step)

    def on_rows_shared(self, event: RowsShared) -> None:
        self._shared[event.loader, event.other] = event

    def why_not_checked(self) -> str:
        return self._because

    def on_run_ended(self, end: RunEnded) -> Findings:
        trained, evaluated = self._sides()
        if trained:
            self._because = "" if evaluated else "no loader was evaluated on"
        for story, sides in evaluated.items():
            training = trained.get(story, {})
            if training and evaluated and _never_repeats(training.values(), self._batches.values()):
                self._because = "no training sample came twice, so that none could be recognised (augmentation)"
            overlaps = {loader: self._overlap(loader, side, training) for loader, side in sides.items() if training}
            fresh = any(overlap is not None and overlap.share < SHARE for overlap in overlaps.values())
            for loader, overlap in overlaps.items():
                if overlap is not None and overlap.is_certain and not overlap.is_on_purpose(beside_another=fresh):
                    yield self._speak(sides[loader], training, overlap)

    def _sides(self) -> tuple[dict[_Story, dict[int, _Side]], dict[_Story, dict[int, _Side]]]:
        """What each model was trained on, and what it was only called on, loader by loader."""
        trained: dict[_Story, dict[int, _Side]] = {}
        evaluated: dict[_Story, dict[int, _Side]] = {}
        for (loader, life, _), batches in self._batches.items():
            moved = any(batch.stepped is not None for batch in batches)
            wanted = [batch for batch in batches if (batch.stepped is not None if moved else batch.fate == "evaluated")]
            if not moved and len(wanted) < len(batches):
                continue  # not all of the pass is certain
            for batch in wanted:
                for model in batch.models:
                    sides = (trained if moved else evaluated).setdefault((life, model), {})
                    sides.setdefault(loader, _Side(batch)).add(batch, batch.step)
        return trained, evaluated

    def _overlap(self, loader: int, side: _Side, training: dict[int, _Side]) -> _Overlap | None:
        """None where the evaluation is over the training data itself, on purpose, or came before all training."""
        last = self._last_start(loader, side)
        before = {other: trained for other, trained in training.items() if trained.first.step < last}
        numbers = [
            _by_numbers(event, other, side) for other in before if (event := self._numbers(loader, other)) is not None
        ]
        if numbers:
            return max(numbers, key=lambda overlap: overlap.share)
        if (
            not before
            or loader in before
            or side.first.dataset in {other.first.dataset for other in before.values()} - {-1}
        ):
            return None
        known = {row for other in before.values() for row, step in other.rows.items() if step < last}
        sizes = [other.first.samples for other in before.values()]
        looked = sum(step < last for other in before.values() for step in other.rows.values())
        coverage = 1.0 if None in sizes else min(1.0, looked / max(1, sum(size or 0 for size in sizes)))
        by_nature = _twins_expected(side, list(before.values()))
        if by_nature is None:
            return None
        hits = sum(row in known for row in side.rows)
        part = (side.first.samples or len(side.rows)) < max(size or looked for size in sizes)
        everything = not side.scored and _holds_all(side, hits, len(known))
        whole = _is_whole(side, hits, coverage)
        return _Overlap(
            len(side.rows),
            hits,
            by_nature,
            _unseen(side, before.values(), len(known)),
            coverage,
            whole,
            part,
            everything,
        )

    def _numbers(self, loader: int, other: int) -> RowsShared | None:
        return self._shared.get((loader, other)) or self._shared.get((other, loader))

    def _last_start(self, loader: int, side: _Side) -> int:
        """The step of the last pass over a loader in this life of the model."""
        following = [
            batch.step
            for (_, life, _), batches in self._batches.items()
            for batch in batches
            if life > side.first.optimizers_built
        ]
        end = min(following, default=None)
        return max([side.last, *(step for step in self._starts.get(loader, []) if end is None or step < end)])

    def _speak(self, side: _Side, training: dict[int, _Side], overlap: _Overlap) -> Finding:
        first = side.first
        how = "draw the same numbers of one dataset" if overlap.by_numbers else "were met in training before"
        looked = (
            ""
            if overlap.by_numbers or overlap.coverage > WHOLE
            else f", with {overlap.coverage:.0%} of the training rows looked at"
        )
        return self.finding(
            first,
            f"{overlap.known} of {overlap.rows} rows that the model was evaluated on ({overlap.known / overlap.rows:.0%}) {how}{looked}.",
            fix="Split the data once, before it is repeated, windowed or augmented, and give each loader its own part.",
            evidence={
                "evaluated_rows": overlap.rows,
                "trained_on": overlap.known,
                "twins_expected": round(overlap.by_nature, 2),
                "training_rows_looked_at": round(overlap.coverage, 3),
                "estimated_share": round(overlap.share, 3),
                "compared_by": "number" if overlap.by_numbers else "content",
                "training_loaders": [_shown(other.first.built or other.first.place) for other in training.values()],
            },
            place=first.built or first.place,
        )


def _by_numbers(event: RowsShared, training: int, side: _Side) -> _Overlap:
    sizes = (event.samples, event.other_samples)
    trained, rows = sizes if event.loader == training else sizes[::-1]
    everything = event.shared == trained and not side.scored
    return _Overlap(
        rows, event.shared, 0.0, 0.0, 1.0, event.shared == rows, rows < trained, everything, by_numbers=True
    )


def _twins_expected(side: _Side, training: list[_Side]) -> float | None:
    """Evaluated rows that would have a twin in training if both were parts of one pile; None where that cannot be
    measured."""
    looked = sum(len(other.rows) for other in training)
    if any(other.first.with_replacement for other in training):
        if side.pass_one.total() < MEASURED:
            return None
        return len(side.rows) * min(1.0, side.twins() * looked / max(1, side.pass_one.total()))
    one = sum(other.pass_one.total() for other in training)
    twins = sum(other.twins() * other.pass_one.total() for other in training) / max(1, one)
    return len(side.rows) * min(1.0, twins * max(1.0, looked / max(1, one)))


def _unseen(side: _Side, training: Iterable[_Side], known: int) -> float:
    """Rows that may be known by twins of which none was met: each pass had so many pairs in which one could have shown
    itself."""
    looked = [
        side.pass_one.total(),
        *(other.pass_one.total() for other in training if not other.first.with_replacement),
    ]
    return UNSEEN * len(side.rows) * known / max(1.0, sum(size * (size - 1) / 2 for size in looked))


def _is_whole(side: _Side, hits: int, coverage: float) -> bool:
    """All of the evaluated rows are training rows, or may well be, where only some of these were looked at."""
    share = hits / max(1, len(side.rows))
    if coverage >= WHOLE:
        return share >= WHOLE
    return share + SIGMAS * math.sqrt(share / max(1, len(side.rows))) >= WHOLE * coverage


def _holds_all(side: _Side, hits: int, known: int) -> bool:
    """All training rows that were looked at are among the evaluated ones, or may well be, where only some of those were
    looked at."""
    looked = min(1.0, len(side.rows) / max(1, side.first.samples or len(side.rows)))
    return hits + SIGMAS * math.sqrt(hits) * (looked < WHOLE) >= WHOLE * looked * known


def _never_repeats(training: Iterable[_Side], passes: Iterable[list[BatchInspected]]) -> bool:
    """Rows of the first pass should have come back in a later one, and none has."""
    sides = {side.first.loader: side for side in training}
    expected, met = 0.0, 0
    for batch in _later(passes):
        side = sides.get(batch.loader)
        if side is not None and batch.optimizers_built == side.first.optimizers_built and side.first.samples:
            expected += len(batch.rows) * len(side.pass_one) / side.first.samples
            met += sum(row in side.pass_one for row in batch.rows)
    return expected >= EXPECTED and not met


def _later(passes: Iterable[list[BatchInspected]]) -> Iterator[BatchInspected]:
    return (batch for batches in passes for batch in batches if batch.passes > 1 and batch.stepped is not None)


def _shown(place: Place | None) -> str:
    return "" if place is None else f"{place.path}:{place.line}"
