"""DAT101 train-validation-overlap: a model is evaluated on samples that it was trained on.

What it sees
------------
Samples are recognized by a hash of their content: some samples of a pass without backward went through a backward and a
step of the same model before. Natural duplicates are allowed for: the more duplicates the training data has, the more
the evaluation may have. Loaders over subsets of one dataset are also compared by the indices they draw.

Why it hurts
------------
The model has seen the answers. The measured loss and accuracy are too good by an unknown amount, and early stopping,
model selection and every reported number depend on them.

Evidence
--------
The number of evaluated samples, how many of them were trained on, how many duplicates are expected, the share of
training samples that were compared, and the lines of the training loaders.

Use instead
-----------
    train, valid = random_split(dataset, [0.8, 0.2], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train, batch_size=64, shuffle=True)
    valid_loader = DataLoader(valid, batch_size=64)

Split before samples are repeated, cut into windows or augmented.

When it is fine
---------------
Not reported: accuracy on the training set itself (the same loader, the same dataset, or all of its samples), or on a
part of it in addition to a real validation, unless that part is named validation or test; features of all the data
without a score; predictions for samples that come with a placeholder instead of labels; folds of a cross-validation,
each with its own model or optimizer; tables with few distinct values, where equal rows are expected; samples that are
evaluated first and trained on later.

Not detected: batches that a script slices out of its tensors. Augmented training samples never repeat: then only
loaders over parts of one dataset can be compared.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from trueloop.event import BatchInspected, EpochStarted, RowsShared, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, path_and_line
from trueloop.usercode.names import says_held_out

__all__ = ["TrainValidationOverlap"]

ROWS: Final = 4  # Evaluated samples that must have been trained on: fewer may be natural duplicates
SHARE: Final = 0.02  # Share of the evaluated samples: up to 1% of public datasets are duplicates across splits
SIGMAS: Final = 4.0  # Standard deviations above the expected count
DUPLICATES: Final = 2.0  # Factor on the expected duplicates: their number is itself only an estimate
WHOLE: Final = 0.98  # Share above which all evaluated samples count as training samples: the rest was modified
UNSEEN: Final = 5.0  # Pairs of duplicates that may exist although none was seen: more are missed only once in 150 cases
MEASURED: Final = 100  # Evaluated samples needed to estimate the duplicates of a training set sampled with replacement
EXPECTED: Final = 10.0  # Samples expected to repeat in a second epoch before the rule concludes that none ever does


@dataclass(slots=True)
class _Side:
    """The samples of one loader for one model, between two initializations of it."""

    first: BatchInspected
    rows: dict[int, int] = field(default_factory=dict)  # Each sample, and the step at which it was first seen
    pass_one: Counter[int] = field(default_factory=Counter)
    last: int = 0  # The step of its last batch
    scored: bool = False
    placeholders: set[int | None] = field(default_factory=set)

    def add(self, batch: BatchInspected, step: int) -> None:
        for row in batch.rows:
            self.rows.setdefault(row, step)
        if batch.passes == 1:
            self.pass_one.update(batch.rows)
        self.last = max(self.last, batch.step)
        self.scored = self.scored or batch.scored
        self.placeholders.add(batch.placeholder)

    @property
    def only_predicts(self) -> bool:
        """Nothing to compare its outputs with: no score was computed, and one number is in the place of all labels."""
        return not self.scored and len(self.placeholders) == 1 and None not in self.placeholders

    def duplicates(self) -> float:
        """Share of the samples of one pass that occur more than once."""
        return sum(count for count in self.pass_one.values() if count > 1) / max(1, self.pass_one.total())


@dataclass(frozen=True, slots=True)
class _Overlap:
    """How many evaluated samples were trained on."""

    rows: int
    known: int
    by_nature: float  # Known samples expected without a leak, from the duplicates that were seen
    unseen: float  # ... and from duplicates that may exist but were not seen.
    coverage: float  # Share of the training samples that were compared
    whole: bool  # All evaluated samples are, or may be, training samples
    part: bool  # They are fewer than the training samples
    everything: bool  # All training samples are or may be among them, and no score was computed: features of all data
    by_numbers: bool = False
    named: bool = False  # the names of the loader or its dataset say validation or test

    @property
    def share(self) -> float:
        """Estimated share of the evaluated samples, if all training samples had been compared."""
        return min(1.0, max(0.0, self.known - self.by_nature) / max(1, self.rows) / max(self.coverage, 1e-9))

    @property
    def is_certain(self) -> bool:
        if self.by_numbers:
            return self.share >= SHARE
        limit = DUPLICATES * self.by_nature + SIGMAS * math.sqrt(self.by_nature) + self.unseen
        return self.known >= ROWS and self.known > limit and self.share >= SHARE

    def is_on_purpose(self, *, beside_another: bool) -> bool:
        """Accuracy on the training set, or on a part of it in addition to a validation; features of all the data."""
        return self.everything or (self.whole and ((beside_another and not self.named) or not self.part))


_Key = tuple[int, int]  # (life, model)


class TrainValidationOverlap(Rule, code="DAT101", severity=Severity.ERROR):
    not_applicable = "no batch of a loader was trained on"

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int, int], list[BatchInspected]] = {}  # By loader, life and pass
        self._starts: dict[int, list[int]] = {}
        self._shared: dict[tuple[int, int], RowsShared] = {}
        self._reason = self.not_applicable
        self._named: set[int] = set()

    def on_batch_inspected(self, batch: BatchInspected) -> None:
        self._batches.setdefault((batch.loader, batch.optimizers_built, batch.passes), []).append(batch)

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._starts.setdefault(event.loader, []).append(event.step)
        if says_held_out(event.names):
            self._named.add(event.loader)

    def on_rows_shared(self, event: RowsShared) -> None:
        self._shared[event.loader, event.other] = event

    def why_not_checked(self) -> str:
        return self._reason

    def on_run_ended(self, end: RunEnded) -> Findings:
        trained, evaluated = self._sides()
        if trained:
            self._reason = "" if evaluated else "no loader was used for evaluation"
        for key, sides in evaluated.items():
            training = trained.get(key, {})
            if training and evaluated and _never_repeats(training.values(), self._batches.values()):
                self._reason = "no training sample repeated, so none could be recognized (augmentation)"
            overlaps = {loader: self._overlap(loader, side, training) for loader, side in sides.items() if training}
            fresh = any(overlap is not None and overlap.share < SHARE for overlap in overlaps.values())
            for loader, overlap in overlaps.items():
                if overlap is not None and overlap.is_certain and not overlap.is_on_purpose(beside_another=fresh):
                    yield self._report(sides[loader], training, overlap)

    def _sides(self) -> tuple[dict[_Key, dict[int, _Side]], dict[_Key, dict[int, _Side]]]:
        """The training samples and the evaluation samples of each model, by loader."""
        trained: dict[_Key, dict[int, _Side]] = {}
        evaluated: dict[_Key, dict[int, _Side]] = {}
        for (loader, life, _), batches in self._batches.items():
            moved = any(batch.stepped is not None for batch in batches)
            wanted = [batch for batch in batches if (batch.stepped is not None if moved else batch.fate == "evaluated")]
            if not moved and len(wanted) < len(batches):
                continue  # part of the pass is undecided
            for batch in wanted:
                for model in batch.models:
                    sides = (trained if moved else evaluated).setdefault((life, model), {})
                    sides.setdefault(loader, _Side(batch)).add(batch, batch.step)
        return trained, evaluated

    def _overlap(self, loader: int, side: _Side, training: dict[int, _Side]) -> _Overlap | None:
        """None if the evaluation uses the training data on purpose, or came before all training."""
        last = self._last_start(loader, side)
        before = {other: trained for other, trained in training.items() if trained.first.step < last}
        shared = {other: self._shared.get((loader, other)) or self._shared.get((other, loader)) for other in before}
        numbers = [_by_numbers(event, other, side) for other, event in shared.items() if event is not None]
        if numbers:
            return replace(max(numbers, key=lambda overlap: overlap.share), named=loader in self._named)
        datasets = {other.first.dataset for other in before.values()} - {-1}
        if not before or loader in before or side.first.dataset in datasets or side.only_predicts:
            return None
        known = {row for other in before.values() for row, step in other.rows.items() if step < last}
        sizes = [other.first.samples for other in before.values()]
        looked = sum(step < last for other in before.values() for step in other.rows.values())
        coverage = 1.0 if None in sizes else min(1.0, looked / max(1, sum(size or 0 for size in sizes)))
        by_nature = _duplicates_expected(side, list(before.values()))
        if by_nature is None:
            return None
        hits = sum(row in known for row in side.rows)
        part = (side.first.samples or len(side.rows)) < max(size or looked for size in sizes)
        everything = not side.scored and _holds_all(side, hits, len(known))
        whole = _is_whole(side, hits, coverage)
        unseen = _unseen(side, before.values(), len(known))
        return _Overlap(
            len(side.rows), hits, by_nature, unseen, coverage, whole, part, everything, named=loader in self._named
        )

    def _last_start(self, loader: int, side: _Side) -> int:
        """The step of the last pass over a loader in this life of the model."""
        later = [batches for (_, life, _), batches in self._batches.items() if life > side.first.optimizers_built]
        end = min((batch.step for batches in later for batch in batches), default=None)
        return max([side.last, *(step for step in self._starts.get(loader, []) if end is None or step < end)])

    def _report(self, side: _Side, training: dict[int, _Side], overlap: _Overlap) -> Finding:
        first = side.first
        how = (
            "have the same dataset indices as training samples"
            if overlap.by_numbers
            else "were used in training before"
        )
        all_compared = overlap.by_numbers or overlap.coverage > WHOLE
        compared = "" if all_compared else f" ({overlap.coverage:.0%} of the training samples were compared)"
        return self.finding(
            first,
            f"{overlap.known} of {overlap.rows} evaluated samples ({overlap.known / overlap.rows:.0%}) "
            f"{how}{compared}.",
            fix="Split the data once, before repeating, windowing or augmenting it, and give each loader its own "
            "split.",
            evidence={
                "evaluated_samples": overlap.rows,
                "trained_on": overlap.known,
                "duplicates_expected": round(overlap.by_nature, 2),
                "compared_share_of_training": round(overlap.coverage, 3),
                "estimated_share": round(overlap.share, 3),
                "compared_by": "index" if overlap.by_numbers else "content",
                "training_loaders": [path_and_line(side.first.built or side.first.place) for side in training.values()],
            },
            place=first.built or first.place,
        )


def _by_numbers(event: RowsShared, training: int, side: _Side) -> _Overlap:
    sizes = (event.samples, event.other_samples)
    trained, rows = sizes if event.loader == training else sizes[::-1]
    everything = event.shared == trained and not side.scored
    whole, part = event.shared == rows, rows < trained
    return _Overlap(rows, event.shared, 0.0, 0.0, 1.0, whole, part, everything, by_numbers=True)


def _duplicates_expected(side: _Side, training: list[_Side]) -> float | None:
    """Evaluated samples expected to have a duplicate in a random split; None if it cannot be estimated."""
    looked = sum(len(other.rows) for other in training)
    if any(other.first.with_replacement for other in training):
        if side.pass_one.total() < MEASURED:
            return None
        return len(side.rows) * min(1.0, side.duplicates() * looked / max(1, side.pass_one.total()))
    one = sum(other.pass_one.total() for other in training)
    share = sum(other.duplicates() * other.pass_one.total() for other in training) / max(1, one)
    return len(side.rows) * min(1.0, share * max(1.0, looked / max(1, one)))


def _unseen(side: _Side, training: Iterable[_Side], known: int) -> float:
    """Samples that may be known through duplicates none of which was seen among the pairs of each pass."""
    others = (other for other in training if not other.first.with_replacement)
    looked = [each.pass_one.total() for each in (side, *others)]
    return UNSEEN * len(side.rows) * known / max(1.0, sum(size * (size - 1) / 2 for size in looked))


def _is_whole(side: _Side, hits: int, coverage: float) -> bool:
    """All evaluated samples are training samples, or may be if only some of these were compared."""
    share = hits / max(1, len(side.rows))
    if coverage >= WHOLE:
        return share >= WHOLE
    return share + SIGMAS * math.sqrt(share / max(1, len(side.rows))) >= WHOLE * coverage


def _holds_all(side: _Side, hits: int, known: int) -> bool:
    """All compared training samples are evaluated, or may be if only some evaluated samples were compared."""
    looked = min(1.0, len(side.rows) / max(1, side.first.samples or len(side.rows)))
    return hits + SIGMAS * math.sqrt(hits) * (looked < WHOLE) >= WHOLE * looked * known


def _never_repeats(training: Iterable[_Side], passes: Iterable[list[BatchInspected]]) -> bool:
    """No sample of the first pass occurs in a later one, although some should."""
    sides = {side.first.loader: side for side in training}
    expected, met = 0.0, 0
    for batch in (batch for batches in passes for batch in batches if batch.passes > 1 and batch.stepped is not None):
        side = sides.get(batch.loader)
        if side is not None and batch.optimizers_built == side.first.optimizers_built and side.first.samples:
            expected += len(batch.rows) * len(side.pass_one) / side.first.samples
            met += sum(row in side.pass_one for row in batch.rows)
    return expected >= EXPECTED and not met
