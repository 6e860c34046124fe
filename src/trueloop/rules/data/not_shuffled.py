"""DAT102 not-shuffled: training reads the data class by class, in the order in which it is stored.

What it sees
------------
The loader that is trained on takes the samples as they lie (no shuffling sampler, or a stream), and their classes, as
they went into the loss, come in blocks: batches hold far fewer classes than the same samples would in random order, and
each class comes in one block or little more.

Why it hurts
------------
Each step then follows the gradient of one class alone: the model learns to answer the class of the moment and forgets
the others, batch norm's statistics swing from block to block, and what is measured after a pass depends on which class
came last.

Evidence
--------
Batches looked at, classes, how many blocks they came in, how strongly batch and class go together (0 as in random
order, 1 each batch of one class), and the line of the loader.

Use instead
-----------
    DataLoader(dataset, batch_size=64, shuffle=True)

A stream (IterableDataset) is shuffled where it is made, by a buffer or by the order of its files.

When it is fine
---------------
Not reported: evaluation in order; data that lies in random order already; classes that come back in many blocks, as in
a recording that is read in time; a sampler of your own; regression, and any target that is not one class per sample.
Batches that a script cuts out of its tensors by hand are not seen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, final

from trueloop.event import BatchInspected, RunEnded
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import shuffled
from trueloop.usercode.source import diff, source_of

__all__ = ["NotShuffled"]

CHUNK: Final = 16
"""Samples over which classes are counted at least: smaller batches hold few classes in any order."""
CHUNKS: Final = 4
SAMPLES: Final = 64
"""Fewer say nothing about an order."""
STRENGTH: Final = 0.5
"""Share of the association between batch and class (Cramér's V squared) from which the order is one by class. Random
order gives nearly 0, two files of different mixture 0.1 to 0.2, sorted classes 0.9 to 1."""
SIGMAS: Final = 10.0
"""... and how far beyond chance it must lie: chance alone never gets there."""

_ORDERS: Final = {
    "sequential": "reads its dataset from first to last",
    "stream": "takes the samples as its stream yields them",
}


@final
class NotShuffled(Rule):
    code = "DAT102"
    name = "not-shuffled"
    severity = Severity.WARNING
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
            first = batches[0]
            yield self.finding(
                first,
                f"The loader that is trained on {_ORDERS[first.order]}, and the {len(classes)} classes come in {blocks} blocks: "
                f"{len(batches)} batches hold {_per_batch(batches):.1f} classes on average.",
                fix="Shuffle the training data: DataLoader(..., shuffle=True)."
                if first.order == "sequential"
                else "Shuffle where the stream is made: by a buffer of samples, or by the order in which its files are read.",
                evidence={
                    "batches": len(batches),
                    "batch_size": first.size,
                    "classes": len(classes),
                    "blocks": blocks,
                    "association": round(strength, 3),
                    "order": first.order,
                },
                place=first.built or first.place,
                diff=_mended(first),
            )


def _chunks(batches: Iterable[BatchInspected]) -> Iterator[list[int]]:
    """Classes of the samples that moved the weights together, and more until there are enough to count."""
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
    """Cramér's V squared between chunk and class, and how many deviations the chi square lies above its mean in random
    order."""
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
    """How often the most frequent class of a chunk is another one than that of the chunk before, and one."""
    leading = [Counter(chunk).most_common(1)[0][0] for chunk in chunks]
    return 1 + sum(after != before for before, after in pairwise(leading))


def _per_batch(batches: list[BatchInspected]) -> float:
    return sum(len(set(batch.labels)) for batch in batches) / len(batches)


def _mended(batch: BatchInspected) -> str:
    if batch.built is None or batch.order != "sequential":
        return ""
    source = source_of(batch.built.path)
    edit = shuffled(source, batch.built)
    return "" if edit is None else diff(batch.built.path, [edit])
