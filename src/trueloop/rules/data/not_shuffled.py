"""DAT102 not-shuffled: the training data is read class by class, in its stored order.

What it sees
------------
The training loader reads the samples in stored order (no shuffling sampler, or a stream), and their classes come in
blocks: batches contain far fewer classes than in random order, and each class comes in about one block.

Why it hurts
------------
Each step follows the gradient of one class: the model learns to predict the current class and forgets the others, batch
norm statistics swing from block to block, and the metrics after an epoch depend on which class came last.

Evidence
--------
The number of batches and classes, the number of blocks, the association between batch and class (0: random order, 1:
one class per batch), and the order of the loader.

Use instead
-----------
    DataLoader(dataset, batch_size=64, shuffle=True)

Shuffle a stream (IterableDataset) at its source, with a shuffle buffer or a random file order.

When it is fine
---------------
Not reported: evaluation in order; data that is stored in random order; classes that return in many blocks, as in a
recording read in time order; a custom sampler; regression, and any target that is not one class per sample. Not
detected: batches that a script slices out of its tensors.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import fmean
from typing import Final

from trueloop.event import BatchInspected, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity
from trueloop.usercode.rewrite import shuffle_diff

__all__ = ["NotShuffled"]

CHUNK: Final = 16  # Minimum number of samples to count classes over: smaller batches have few classes in any order
CHUNKS: Final = 4
SAMPLES: Final = 64  # With fewer samples the order cannot be determined
STRENGTH: Final = 0.5
"""Association between batch and class (Cramér's V squared) above which the data is sorted by class. Random order gives
nearly 0, two files with different class frequencies 0.1 to 0.2, sorted classes 0.9 to 1."""
SIGMAS: Final = 10.0  # ... and standard deviations above random order: never reached by coincidence.

_ORDERS: Final = {"sequential": "reads the dataset in stored order", "stream": "reads the stream in its own order"}


class NotShuffled(Rule, code="DAT102", severity=Severity.WARNING):
    not_applicable = "no batch of a loader was trained on"

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], list[BatchInspected]] = {}

    def on_batch_inspected(self, batch: BatchInspected) -> None:
        if batch.fate == "trained" and batch.passes == 1 and batch.order in _ORDERS and batch.labels:
            self._batches.setdefault((batch.loader, batch.optimizers_built), []).append(batch)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for batches in self._batches.values():
            chunks = list(_chunks(batches))
            classes = Counter(label for chunk in chunks for label in chunk)
            if len(chunks) < CHUNKS or len(classes) < 2 or sum(classes.values()) < SAMPLES:
                continue
            strength, sigmas = _association(chunks, classes)
            blocks = _blocks(chunks)
            if strength < STRENGTH or sigmas < SIGMAS or blocks > len(classes) + len(classes) // 3:
                continue
            first, per_batch = batches[0], fmean(len(set(batch.labels)) for batch in batches)
            yield self.finding(
                first,
                f"The training loader {_ORDERS[first.order]} and its {len(classes)} classes come in {blocks} blocks: "
                f"{len(batches)} batches contain {per_batch:.1f} classes on average.",
                fix="Pass `shuffle=True` to the training `DataLoader`."
                if first.order == "sequential"
                else "Shuffle the stream at its source, with a shuffle buffer or a random file order.",
                evidence={
                    "batches": len(batches),
                    "batch_size": first.size,
                    "classes": len(classes),
                    "blocks": blocks,
                    "association": round(strength, 3),
                    "order": first.order,
                },
                place=first.built or first.place,
                diff=shuffle_diff(first.built) if first.order == "sequential" else "",
            )


def _chunks(batches: Iterable[BatchInspected]) -> Iterator[list[int]]:
    """Class labels of the samples of one step, merged with the next until there are enough to count."""
    chunk: list[int] = []
    step: int | None = None
    for batch in batches:
        if batch.stepped != step and len(chunk) >= CHUNK:
            yield chunk
            chunk = []
        chunk = [*chunk, *batch.labels]
        step = batch.stepped
    if len(chunk) >= CHUNK:
        yield chunk


def _association(chunks: list[list[int]], classes: Counter[int]) -> tuple[float, float]:
    """Cramér's V squared between chunk and class, and the standard deviations of chi-squared above random order."""
    total = sum(classes.values())
    square = 0.0
    for chunk in chunks:
        counts = Counter(chunk)
        for label, count in classes.items():
            expected = len(chunk) * count / total
            square += (counts[label] - expected) ** 2 / expected
    freedom = (len(chunks) - 1) * (len(classes) - 1)
    return square / (total * min(len(chunks) - 1, len(classes) - 1)), (square - freedom) / math.sqrt(2 * freedom)


def _blocks(chunks: list[list[int]]) -> int:
    """1 + how often the most frequent class differs between consecutive chunks."""
    leading = [Counter(chunk).most_common(1)[0][0] for chunk in chunks]
    return 1 + sum(after != before for before, after in pairwise(leading))
