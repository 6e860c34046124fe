"""DAT103 same-order-every-epoch: each epoch reads the same training batches in the same order.

What it sees
------------
The first batches of three training epochs over a loader contain the same samples in the same order, compared by
content. Either the loader does not shuffle, although the order of its samples has no meaning, or it shuffles with the
same random state in each epoch, because the seed is set inside the epoch loop.

Why it hurts
------------
The same samples always share a batch and the same batch always comes last, so the gradient noise no longer averages out
over the epochs: training follows a cycle, batch norm sees fixed groups, and the result is slightly worse.

Evidence
--------
The number of epochs and batches compared, the batches per epoch, the order, and the line of the loader.

Use instead
-----------
    torch.manual_seed(0)                            # once, before the loop
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for epoch in range(10):
        for x, y in loader:
            ...

When it is fine
---------------
Not reported: evaluation; full-batch training and data with few batches; samples whose order has a meaning (windows over
a series, similar neighbors, targets that are the inputs shifted by one, a hidden state carried from batch to batch); a
custom sampler; several runs in one program that each start with the same seed. Not detected: augmented samples, which
differ in each epoch, and batches that a script slices out of its tensors.
"""

from collections.abc import Iterable
from statistics import fmean
from typing import Final

from trueloop.event import BatchInspected, Place, RunEnded
from trueloop.rules.rule import Finding, Findings, Rule, Severity, facts, statement_at
from trueloop.usercode.rewrite import loops_around, shuffle_diff
from trueloop.usercode.source import called_name, calls_in

__all__ = ["SameOrderEveryEpoch"]

PASSES: Final = 3  # Two equal epochs may be a restart
SHUFFLED: Final = 4  # Batches per epoch: a random order of four repeats once in 24 times, their samples almost never
IN_ORDER: Final = 8  # Batches per epoch above which an unshuffled order is reported: fewer are a full batch in parts
ALIKE: Final = 0.85
"""Distance between neighboring samples relative to any two: random order gives 1 (deviation 0.05 for the smallest
sets checked), a series that keeps a third of its last value 0.82."""

_SEEDS: Final = frozenset(
    {"manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed", "seed_all", "fix_seed"}
)


class SameOrderEveryEpoch(Rule, code="DAT103", severity=Severity.WARNING):
    not_applicable = "no batch of a loader was trained on"
    explained_by = ("not-shuffled", "set-epoch-not-called")

    def __init__(self) -> None:
        self._passes: dict[
            tuple[int, int, tuple[int, ...], Place | None], dict[tuple[int, int], list[BatchInspected]]
        ] = {}  # By loader, life and model: the batches of each pass. A loader created in each epoch counts as one
        self._compared = False

    def on_batch_inspected(self, batch: BatchInspected) -> None:
        if batch.fate == "trained" and batch.order in ("random", "sequential"):
            lasting = batch.built is None or batch.dataset < 0
            key = (batch.optimizers_built, batch.loader if lasting else -batch.dataset - 1, batch.models, batch.built)
            self._passes.setdefault(key, {}).setdefault((batch.loader, batch.passes), []).append(batch)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for passes in self._passes.values():
            epochs = [batches for batches in passes.values() if _is_from_start(batches)]
            if len(epochs) < PASSES:
                continue
            self._compared = True
            length = min(map(len, epochs))
            orders = {tuple(batch.rows for batch in batches[:length]) for batches in epochs}
            first = epochs[0][:length]
            least = SHUFFLED if first[0].order == "random" else IN_ORDER
            distinct = len({batch.rows for batch in first}) == length >= least
            if len(orders) == 1 and distinct and _order_is_arbitrary(first):
                yield self._report(first, len(epochs), len(epochs[0]))

    def why_not_checked(self) -> str:
        return "" if self._compared else f"no loader was trained on for {PASSES} epochs"

    def _report(self, batches: list[BatchInspected], passes: int, length: int) -> Finding:
        first = batches[0]
        reseeded = first.order == "random"
        seed = _seed_in_loop(first.place) if reseeded else None
        how = "shuffles with the same random state in each epoch" if reseeded else "does not shuffle"
        return self.finding(
            first,
            f"{passes} training epochs had the same {len(batches)} batches in the same order: the loader {how}.",
            fix="Call `torch.manual_seed(...)` once, before the epoch loop, not inside it."
            if reseeded
            else "Pass `shuffle=True` to the training `DataLoader`.",
            evidence=facts(
                first,
                "epochs batches batches_per_epoch batch_size=size order own_generator loader=built",
                epochs=passes,
                batches=len(batches),
                batches_per_epoch=length,
            ),
            place=seed or (first.place if reseeded else first.built or first.place),
            diff="" if reseeded else shuffle_diff(first.built),
        )


def _is_from_start(batches: list[BatchInspected]) -> bool:
    """The first batches of the pass are complete."""
    return [batch.index for batch in batches[:SHUFFLED]] == list(range(SHUFFLED))


def _order_is_arbitrary(batches: Iterable[BatchInspected]) -> bool:
    """The samples could come in any order; a shuffling loader implies it."""
    batches = list(batches)
    if batches[0].order == "random":
        return True
    measured = [batch.neighbor_distance for batch in batches if batch.neighbor_distance]
    if any(batch.windows or batch.carries_state for batch in batches) or not measured:
        return False
    return min(fmean(ratios) for ratios in zip(*measured, strict=False)) >= ALIKE


def _seed_in_loop(place: Place | None) -> Place | None:
    """The only call that sets a seed inside the loops around a pass."""
    source, statement = statement_at(place)
    loops = loops_around(source, statement) if statement is not None else []
    calls = [call for call in calls_in(loops[-1]) if called_name(call) in _SEEDS] if loops else []
    return source.place(calls[0], place.function) if place is not None and len(calls) == 1 else None
