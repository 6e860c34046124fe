"""DAT109 single-class-batches: most training batches contain samples of one class only.

What it sees
------------
The class labels over the first training batches. Batches whose gradients go into one step count as one. More than half
of them contain a single class, although the data has several and random order rarely does that.

Why it hurts
------------
Each step pulls all predictions towards one class and the next step pulls them back: the loss looks good on every batch,
the model mostly learns the class of the last one, and batch norm sees statistics that no mixed batch has.

Evidence
--------
The number of batches, how many contain one class, how many random order would give, the classes, and the batch size.

Use instead
-----------
    loader = DataLoader(dataset, batch_size=64, shuffle=True)

With a custom sampler, draw each batch from several classes. Gradients of single-class batches may also be accumulated
into one step.

When it is fine
---------------
Not reported: data of one class; batches of fewer than 8 samples; a class so frequent that such batches are common;
evaluation in order; several single-class batches per step. A sampler that groups by class on purpose is reported: allow
it with a comment `# trueloop: allow[single-class-batches]`. Where a script cuts its batches out of tensors itself, only
losses on class labels count, and only if there are batches of three classes or more: scores of real and generated
samples are batches of one class too.
"""

from collections import Counter
from typing import Final

from trueloop.event import BatchInspected, LabelsScored, Place, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity

__all__ = ["SingleClassBatches"]

CONSECUTIVE: Final = 32  # First batches of a pass, all observed, so that the batches of each step are complete
SAMPLES: Final = 8  # Minimum samples per batch: two samples are often of one class
BATCHES: Final = 4  # Minimum single-class batches: fewer may be an odd start
MOST: Final = 0.5  # Share of the batches that must exceed this
CLASSES: Final = 3  # of the batches of one class, where no loader says that they are batches of a data set
BY_CHANCE: Final = 0.25  # Share expected in random order above which they are normal: 16 samples with a 92% class


class SingleClassBatches(Rule, code="DAT109", severity=Severity.WARNING):
    not_applicable = "no batch of a loader was trained on"
    explained_by = ("not-shuffled",)

    def __init__(self) -> None:
        self._windows: dict[tuple[int, tuple[int, ...]], dict[int, list[BatchInspected]]] = {}
        """By life and models: the batches of each step."""
        self._scored: dict[Place | None, dict[int, Counter[int]]] = {}
        """By the line of the loss: the labels of each step."""

    def on_batch_inspected(self, batch: BatchInspected) -> None:
        if batch.stepped is not None and batch.passes == 1 and batch.index < CONSECUTIVE:
            self._windows.setdefault((batch.optimizers_built, batch.models), {}).setdefault(batch.stepped, []).append(
                batch
            )

    def on_labels_scored(self, event: LabelsScored) -> None:
        self._scored.setdefault(event.place, {}).setdefault(event.step, Counter()).update(event.labels)

    def why_not_checked(self) -> str:
        windows = [window for windows in self._windows.values() for window in windows.values()]
        labeled = any(batch.labels for window in windows for batch in window)
        return "" if labeled or self._scored else "no class labels of a loader were used in a loss"

    def on_run_ended(self, end: RunEnded) -> Findings:
        for windows in self._windows.values():
            labeled = [window for window in windows.values() if all(batch.labels for batch in window)]
            large = [window for window in labeled if sum(batch.size for batch in window) >= SAMPLES]
            counts = [Counter(label for batch in window for label in batch.labels) for window in large]
            classes = sum(counts, Counter[int]())
            alone = sum(len(count) == 1 for count in counts)
            if len(classes) < 2 or alone < BATCHES or alone <= MOST * len(counts):
                continue
            chance = sum(_by_chance(classes, count.total()) for count in counts)
            if chance <= BY_CHANCE * len(counts):
                yield self._report(large, classes, alone, chance)
        for place, steps in self._scored.items():
            yield from self._cut(end, place, list(steps.values()))

    def _cut(self, end: RunEnded, place: Place | None, counts: list[Counter[int]]) -> Findings:
        """Batches that the script cuts itself."""
        classes = sum(counts, Counter[int]())
        alone = [count for count in counts if len(count) == 1]
        chance = sum(_by_chance(classes, count.total()) for count in counts)
        if len(alone) < BATCHES or len(alone) <= MOST * len(counts) or chance > BY_CHANCE * len(counts):
            return
        if len({label for count in alone for label in count}) < CLASSES:
            return
        yield self.finding(
            end,
            f"{len(alone)} of the first {len(counts)} training batches contain a single class out of {len(classes)}; "
            f"random order would give {chance:.1f}.",
            fix="Shuffle the rows, not the batches: cut each batch from `torch.randperm(len(x))`.",
            evidence={"batches": len(counts), "single_class_batches": len(alone),
                      "expected_by_chance": round(chance, 2), "classes": dict(classes.most_common(8)),
                      "batch_size": counts[0].total()},
            place=place,
        )  # fmt: skip

    def _report(self, windows: list[list[BatchInspected]], classes: Counter[int], alone: int, chance: float) -> Finding:
        first = windows[0][0]
        built = {batch.built for window in windows for batch in window}
        return self.finding(
            first,
            f"{alone} of {len(windows)} training batches contain a single class out of {len(classes)}; "
            f"random order would give {chance:.1f}.",
            fix="Pass `shuffle=True` so that samples are shuffled, not batches, or draw each batch from several "
            "classes.",
            evidence={
                "batches": len(windows),
                "single_class_batches": alone,
                "expected_by_chance": round(chance, 2),
                "classes": dict(classes.most_common(8)),
                "batch_size": first.size,
                "loaders": len({batch.loader for window in windows for batch in window}),
            },
            place=first.built if len(built) == 1 and first.built is not None else first.place,
        )


def _by_chance(classes: Counter[int], size: int) -> float:
    """The probability that `size` random samples are all of one class."""
    total = classes.total()
    return sum((count / total) ** size for count in classes.values())
