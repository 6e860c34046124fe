"""loader-order-is-seeded: two runs with one seed get the same sample order; each epoch and each seed a different one.

An order that does not repeat makes every run different; an order that never changes shows the model the same batches in
every epoch.
"""

from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, final

import torch

from trueloop.claims.claim import Claim
from trueloop.claims.operation_trace import Start, Trace, place_of
from trueloop.claims.repeat_runs import START, batch_digests, finding_place, trace_script
from trueloop.claims.subject import RecipeSubject, ScriptSubject, dataset_place, function_place
from trueloop.claims.tensor_digest import digest_of_all
from trueloop.data.source import Splits
from trueloop.engine.assemble import assemble
from trueloop.engine.read_data import read_data
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof

__all__ = ["LoaderOrderIsSeeded"]

_Epochs = dict[int, list[list[int]]]  # by loader: digests of the batches of each
BATCHES: Final = 4  # compared in each epoch: a different order shows in the first
SAMPLES: Final = 32  # fetched twice, to see whether the dataset itself differs

UNSEEDED = Cause("the order comes from an unseeded generator", "`torch.manual_seed(0)` first, or give a `generator=`")
READ = Cause(
    "the data are read in a different order each time: an unseeded shuffle, or the order of a folder or set",
    "sort first, then shuffle with a seed",
)
OWN = Cause("the dataset ignores the index, or has its own generator", "let samples depend on the index only")
RESEEDED = Cause("the seed is set again before each epoch", "set it once, before the loop: `trueloop explain DAT103`")
UNSHUFFLED = Cause("the loader does not shuffle", "`DataLoader(..., shuffle=True)`; `trueloop explain DAT102`")


@final
class LoaderOrderIsSeeded(Claim):
    name = "loader-order-is-seeded"
    tests_own_step = True
    healthy = "two runs with one seed get the same batches; a different epoch or seed gets different ones"
    causes: ClassVar[tuple[Cause, ...]] = (UNSEEDED, READ, OWN, RESEEDED, UNSHUFFLED)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        seed = subject.recipe.seed
        first, second = (_run(subject, START[name], seed) for name in ("first", "second"))
        other = _run(subject, START["first"], seed + 1)
        count = len(first.epochs[0])
        facts: dict[str, object] = {"samples": len(first.splits.train), "batches_compared": count}
        facts |= {"epochs": 2, "seeds": 2}
        for epoch, pair in enumerate(zip(first.epochs, second.epochs, strict=True)):
            for number, (one, two) in enumerate(zip(*pair, strict=True)):
                if one != two:
                    cause, place = _cause(subject, first.splits, second.splits)
                    said = f"batch {number + 1} of epoch {epoch + 1} differs between two runs with seed {seed}"
                    return self.fails(said, {**facts, "epoch": epoch, "batch": number}, (cause,), place)
        if len(first.splits.train) < 2:
            return self.unproved("a single sample has no order")
        if subject.recipe.order != "shuffled":
            said = f"the first {count} batches of 2 epochs are bit-identical in two runs with seed {seed}"
            return self.holds(f"{said}; their order is the recipe's own", facts)
        same = "has the same batches in the same order as"
        if first.epochs[0] == first.epochs[1]:
            said = f"the second epoch {same} the first"
            return self.fails(said, facts, (OWN,), dataset_place(first.splits))
        if first.epochs == other.epochs:
            said = f"seed {seed + 1} {same} seed {seed}"
            return self.fails(said, facts, (OWN,), dataset_place(first.splits))
        said = f"the first {count} batches of 2 epochs are bit-identical in two runs with seed {seed}"
        return self.holds(f"{said}, and differ between epochs and with seed {seed + 1}", facts)

    def try_script(self, subject: ScriptSubject) -> Proof:
        traces, error = trace_script(subject)
        if len(traces) < 2:
            return self.unproved(f"the script could not be traced twice ({error})")
        first, second = (_epochs(trace) for trace in traces)
        if not first:
            return self.unproved("no batch of a DataLoader was trained on in this run")
        facts: dict[str, object] = {"loaders": len(first), "epochs": max(map(len, first.values()))}
        for loader, epochs in first.items():
            if epochs != second.get(loader):
                pairs = enumerate(zip(epochs, second.get(loader, []), strict=False))
                number = next((number for number, (one, two) in pairs if one != two), 0)
                said = f"epoch {number + 1} over the training data has different batches in the second of two runs"
                return self.fails(said, {**facts, "epoch": number}, (UNSEEDED, READ, OWN), _line(traces[0], loader))
        return self._compare_epochs(subject, traces[0], first, facts)

    def _compare_epochs(self, subject: ScriptSubject, trace: Trace, loaders: _Epochs, facts: dict[str, Any]) -> Proof:
        order = {batch.loader: batch.order for batch in trace.batches}
        drawn = {loader: epochs for loader, epochs in loaders.items() if order[loader] == "drawn"}
        if not drawn:
            for finding in subject.checked.findings("DAT102", "DAT103"):
                evidence = {**facts, "code": finding["code"]}
                return self.fails(finding["message"], evidence, (UNSHUFFLED,), finding_place(finding))
            return self.unproved("the loader reads the samples in stored order, which may be intended", facts)
        several = {loader: epochs for loader, epochs in drawn.items() if len(epochs) > 1}
        if not several:
            said = "two runs get the same batches, but only one epoch was run"
            return self.unproved(f"{said}: to compare epochs, add `--steps all`", facts)
        for loader, (one, two, *_) in several.items():
            length = min(len(one), len(two))
            if one[:length] == two[:length]:
                said = f"the second epoch has the same {length} batches in the same order as the first"
                return self.fails(said, facts, (RESEEDED,), _line(trace, loader))
        batches = sum(len(batches) for epochs in several.values() for batches in epochs)
        said = f"{batches} batches are bit-identical in two runs, and differ between epochs"
        return self.holds(said, {**facts, "batches": batches})


# -- recipes --


class _Run(NamedTuple):
    splits: Splits
    epochs: list[list[int]]  # digests of the first batches of each


def _run(subject: RecipeSubject, start: Start, seed: int) -> _Run:
    """The data are read again, as by a process with these random states."""
    with fence():
        start.set()
        splits = read_data(subject.recipe, subject.request)
        parts = assemble(replace(subject.recipe, data=lambda _: splits, seed=seed), subject.request)
        epochs = batch_digests(parts, BATCHES)
        parts.batches.close()
    return _Run(splits, epochs)


def _cause(subject: RecipeSubject, one: Splits, other: Splits) -> tuple[Cause, Place | None]:
    """Fetch the same samples twice under one seed: do two reads differ, or two fetches of one read?"""
    numbers = torch.arange(min(SAMPLES, len(one.train), len(other.train)))

    def fetch(splits: Splits) -> int:
        with fence(1):
            return digest_of_all(tuple(splits.train.fetch(numbers)))

    first, again, second = (fetch(splits) for splits in (one, one, other))
    if first == again and first != second:
        return READ, function_place(subject.recipe.data)
    return OWN, dataset_place(one)


# -- scripts --


def _epochs(trace: Trace) -> _Epochs:
    """Of the loaders that are trained on."""
    trained = sorted({batch.loader for batch in trace.batches if batch.trained})
    epochs: dict[int, dict[int, list[int]]] = {loader: {} for loader in trained}
    for batch in trace.batches:
        if batch.loader in epochs:
            epochs[batch.loader].setdefault(batch.passed, []).append(batch.digest)
    return {loader: list(each.values()) for loader, each in epochs.items()}


def _line(trace: Trace, loader: int) -> Place | None:
    return place_of(trace, next(batch.place for batch in trace.batches if batch.loader == loader))
