"""DAT109 single-class-batches: most training batches hold samples of one class only.

What it sees
------------
The classes of the samples, as they went into the loss, over the first batches that a model is trained on. Batches whose
gradients go into one step count as one. More than half of them hold a single class, though the data has several, and
random order would seldom do that.

Why it hurts
------------
Each step pulls all answers towards one class and the next one pulls them back: the loss looks good on every batch, the
model learns little but the class of the last one, and batch norm sees statistics that no mixed batch at test time will
have.

Evidence
--------
Batches looked at, how many held one class, how many random order would give, the classes, and the size of the batches.

Use instead
-----------
    loader = DataLoader(dataset, batch_size=64, shuffle=True)

or, where a sampler chooses, let each batch draw from several classes. Gradients of one-class batches may also be summed
into one step.

When it is fine
---------------
Not reported: data of one class; batches of fewer than 8 samples; a class so frequent that batches without any other are
usual; evaluation in order; several one-class batches per step. A sampler that groups by class on purpose is reported:
allow it there, with a comment
`# trueloop: allow[single-class-batches]`. Batches that a script cuts out of its tensors by hand are not seen.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, final

from trueloop.event import BatchInspected, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["SingleClassBatches"]

CONSECUTIVE: Final = 32
"""Batches from the beginning of a pass that were all looked at, so that those of one step are complete."""
SAMPLES: Final = 8
"""Of a batch: two samples may well be of one class."""
BATCHES: Final = 4
"""That must be of one class: fewer may be an odd beginning."""
MOST: Final = 0.5
"""Share of the batches."""
BY_CHANCE: Final = 0.25
"""Share of one-class batches in random order from which they are no wonder: 16 samples of which 92 % are of one class
give as many."""


@final
class SingleClassBatches(Rule):
    code = "DAT109"
    name = "single-class-batches"
    severity = Severity.WARNING
    not_applicable = "no batch of a loader was trained on"
    explained_by = ("not-shuffled",)

    def __init__(self) -> None:
        self._windows: dict[tuple[int, tuple[int, ...]], dict[int, list[BatchInspected]]] = {}
        """Per life and models: the batches that went into each step."""

    def on_batch_inspected(self, batch: BatchInspected) -> None:
        if batch.stepped is not None and batch.passes == 1 and batch.index < CONSECUTIVE:
            self._windows.setdefault((batch.optimizers_built, batch.models), {}).setdefault(batch.stepped, []).append(
                batch
            )

    def why_not_checked(self) -> str:
        labelled = any(
            batch.labels for windows in self._windows.values() for window in windows.values() for batch in window
        )
        return "" if labelled else "no class labels of a loader went into a loss"

    def on_run_ended(self, end: RunEnded) -> Findings:
        for windows in self._windows.values():
            judged = [window for window in windows.values() if all(batch.labels for batch in window)]
            large = [window for window in judged if sum(batch.size for batch in window) >= SAMPLES]
            counts = [Counter(label for batch in window for label in batch.labels) for window in large]
            classes = sum(counts, Counter[int]())
            alone = sum(len(count) == 1 for count in counts)
            if len(classes) < 2 or alone < BATCHES or alone <= MOST * len(counts):
                continue
            chance = sum(_by_chance(classes, count.total()) for count in counts)
            if chance <= BY_CHANCE * len(counts):
                yield self._speak(large, classes, alone, chance)

    def _speak(self, windows: list[list[BatchInspected]], classes: Counter[int], alone: int, chance: float) -> Finding:
        first = windows[0][0]
        built = {batch.built for window in windows for batch in window}
        return self.finding(
            first,
            f"{alone} of {len(windows)} training batches hold a single class each, out of {len(classes)} classes; "
            f"random order would give {chance:.1f}.",
            fix="Mix the classes: shuffle the samples, not the batches, or draw each batch from several classes.",
            evidence={
                "batches": len(windows),
                "of_one_class": alone,
                "of_one_class_by_chance": round(chance, 2),
                "classes": dict(classes.most_common(8)),
                "batch_size": first.size,
                "loaders": len({batch.loader for window in windows for batch in window}),
            },
            place=first.built if len(built) == 1 and first.built is not None else first.place,
        )


def _by_chance(classes: Counter[int], size: int) -> float:
    """How likely so many samples, drawn at random, are of one class."""
    total = classes.total()
    return sum((count / total) ** size for count in classes.values())
