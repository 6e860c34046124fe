"""DAT103 same-order-every-epoch: each pass over the training data brings the same batches in the same order.

What it sees
------------
The first batches of three training passes over a loader, by the bits of their samples: the same samples in the same
batches in the same order. Either the loader does not shuffle, though nothing in its samples depends on their order, or
it does and its random numbers begin anew before each pass, because something sets the seed inside the epoch loop.

Why it hurts
------------
The same samples always share a batch and the same batch always comes last, so the noise of the gradients no longer
averages out over the epochs: training follows a cycle, batch norm learns the mixture of fixed groups, and the result is
a little worse than it need be.

Evidence
--------
Passes and batches compared, the batches of a pass, who decides the order, and the line of the seed where there is one.

Use instead
-----------
    torch.manual_seed(0)                            # once, before the loop
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for epoch in range(10):
        for x, y in loader:
            ...

When it is fine
---------------
Not reported: evaluation; full-batch training and data of a few batches; samples whose order means something (windows
over a series, neighbours that are alike, targets that are the inputs one place on, a hidden state that is carried from
batch to batch); a sampler of your own; several runs in one program that each begin with the same seed. Samples that are
augmented differ from pass to pass: there a fixed order cannot be seen; nor can it where a script cuts its batches out
of tensors by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from statistics import fmean
from typing import Final, final

from trueloop.event import BatchInspected, Place, RunEnded
from trueloop.finding import Finding, Severity
from trueloop.rules.rule import Findings, Rule
from trueloop.usercode.rewrite import loops_around, shuffled
from trueloop.usercode.source import called_name, calls_in, diff, source_of

__all__ = ["SameOrderEveryEpoch"]

PASSES: Final = 3
"""Two passes that are alike may be a restart; three are a habit."""
SHUFFLED: Final = 4
"""Batches of a pass: in random order they come alike twice once in 24 times, and their samples as good as never."""
IN_ORDER: Final = 8
"""Batches of a pass from which an unshuffled order is worth a word: fewer are a full batch in pieces."""
ALIKE: Final = 0.85
"""How far neighbours may be apart, against any two, and still be taken for samples in no order: random order measures
1, with a deviation of 0.05 for the smallest sets that are judged; a series that keeps a third of its last value
0.82."""

_SEEDS: Final = frozenset(
    {"manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed", "seed_all", "fix_seed"}
)


@final
class SameOrderEveryEpoch(Rule):
    code = "DAT103"
    name = "same-order-every-epoch"
    severity = Severity.WARNING
    not_applicable = "no batch of a loader was trained on"
    explained_by = ("not-shuffled", "sampler-epoch-never-set")

    def __init__(self) -> None:
        self._passes: dict[
            tuple[int, int, tuple[int, ...], Place | None], dict[tuple[int, int], list[BatchInspected]]
        ] = {}
        """Of each loader, life and model, the batches by loader and pass; a loader that is built anew in each epoch is
        one loader."""
        self._compared = False

    def on_batch_inspected(self, batch: BatchInspected) -> None:
        if batch.fate == "trained" and batch.order in ("random", "sequential"):
            lasting = batch.built is None or batch.dataset < 0
            key = (batch.optimizers_built, batch.loader if lasting else -batch.dataset - 1, batch.models, batch.built)
            self._passes.setdefault(key, {}).setdefault((batch.loader, batch.passes), []).append(batch)

    def on_run_ended(self, end: RunEnded) -> Findings:
        for passes in self._passes.values():
            told = [batches for batches in passes.values() if _from_the_start(batches)]
            if len(told) < PASSES:
                continue
            self._compared = True
            length = min(len(batches) for batches in told)
            orders = {tuple(batch.rows for batch in batches[:length]) for batches in told}
            first = told[0][:length]
            least = SHUFFLED if first[0].order == "random" else IN_ORDER
            if (
                len(orders) == 1
                and len({batch.rows for batch in first}) == length >= least
                and _order_means_nothing(first)
            ):
                yield self._speak(first, len(told), len(told[0]))

    def why_not_checked(self) -> str:
        return "" if self._compared else f"no loader was trained on for {PASSES} passes"

    def _speak(self, batches: list[BatchInspected], passes: int, length: int) -> Finding:
        first = batches[0]
        reseeded = first.order == "random"
        seed = _seed_in_loop(first.place) if reseeded else None
        how = "shuffles, but its random numbers begin anew before each pass" if reseeded else "does not shuffle"
        return self.finding(
            first,
            f"All {passes} training passes that were compared brought the same {len(batches)} batches in the same order: the loader {how}.",
            fix="Set the seed once, before the epoch loop, not inside it."
            if reseeded
            else "Shuffle the training data: DataLoader(..., shuffle=True).",
            evidence={
                "passes": passes,
                "batches": len(batches),
                "batches_of_a_pass": length,
                "batch_size": first.size,
                "order": first.order,
                "own_generator": first.own_generator,
                "loader": None if first.built is None else f"{first.built.path}:{first.built.line}",
            },
            place=seed or (first.place if reseeded else first.built or first.place),
            diff="" if reseeded else _mended(first),
        )


def _from_the_start(batches: list[BatchInspected]) -> bool:
    """The first batches of the pass are there, without a gap."""
    return [batch.index for batch in batches[:SHUFFLED]] == list(range(SHUFFLED))


def _order_means_nothing(batches: Iterable[BatchInspected]) -> bool:
    """Samples that could come in any order; what a loader shuffles is meant to."""
    batches = list(batches)
    if batches[0].order == "random":
        return True
    measured = [batch.neighbor_distance for batch in batches if batch.neighbor_distance]
    if any(batch.windows or batch.carries_state for batch in batches) or not measured:
        return False
    return min(fmean(ratios) for ratios in zip(*measured, strict=False)) >= ALIKE


def _seed_in_loop(place: Place | None) -> Place | None:
    """The only call that sets a seed inside the loops around a pass."""
    if place is None:
        return None
    source = source_of(place.path)
    statement = source.statement(place.line)
    loops = loops_around(source, statement) if statement is not None else []
    calls = [call for call in calls_in(loops[-1]) if called_name(call) in _SEEDS] if loops else []
    return source.place(calls[0], place.function) if len(calls) == 1 and isinstance(calls[0], ast.Call) else None


def _mended(batch: BatchInspected) -> str:
    if batch.built is None or batch.order != "sequential":
        return ""
    source = source_of(batch.built.path)
    edit = shuffled(source, batch.built)
    return "" if edit is None else diff(batch.built.path, [edit])
