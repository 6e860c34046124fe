"""loader-order-is-seeded: the samples come in the same order in two runs with the same seed, and in another one in each
epoch and seed.

An order that is not repeated makes every run another one; an order that never changes shows the model the same batches
again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import ClassVar, Final, NamedTuple, final

import torch

from trueloop.claims.claim import Claim
from trueloop.claims.digest import digest_of_all
from trueloop.claims.rerun import START, found_at, traced_script
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.trace import Start, Trace, place_of
from trueloop.data.source import Splits
from trueloop.engine.assemble import assemble
from trueloop.engine.parts import Parts
from trueloop.engine.state import State
from trueloop.event import Place
from trueloop.measure.randomness import fence
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import class_place

__all__ = ["LoaderOrderIsSeeded"]

BATCHES: Final = 4
"""Of each epoch that are compared: an order that differs at all does so in the first."""
SAMPLES: Final = 32
"""That are fetched twice, to see whether it is the dataset that answers otherwise."""

UNSEEDED: Final = Cause(
    "the order is drawn from a generator that nobody has seeded",
    "torch.manual_seed(0) first of all, or DataLoader(..., generator=...)",
)
READ: Final = Cause(
    "the data are read in another order each time: shuffled without a seed, or as a folder or set gives them",
    "sort first, then shuffle by a seed",
)
OWN: Final = Cause(
    "the dataset does not go by the number that it is asked for, or draws from a generator of its own",
    "make a sample follow from its number; draw from the global generators",
)
RESEEDED: Final = Cause(
    "the seed is set again before each pass", "set it once, before the loop over epochs: `trueloop explain DAT103`"
)
UNSHUFFLED: Final = Cause("the loader does not shuffle", "DataLoader(..., shuffle=True): `trueloop explain DAT102`")


@final
class LoaderOrderIsSeeded(Claim):
    name = "loader-order-is-seeded"
    healthy = "two runs with one seed get the same batches; another epoch, or another seed, gets others"
    causes: ClassVar[tuple[Cause, ...]] = (UNSEEDED, READ, OWN, RESEEDED, UNSHUFFLED)

    # -- of a recipe --

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        seed = subject.recipe.seed
        runs = [_run(subject, START["first"], seed), _run(subject, START["second"], seed)]
        other = _run(subject, START["first"], seed + 1)
        first, second = runs
        facts: dict[str, object] = {
            "samples": len(first.splits.train),
            "batches_compared": len(first.epochs[0]),
            "epochs": 2,
            "seeds": 2,
        }
        if first.epochs != second.epochs:
            at = next(
                (epoch, number)
                for epoch, (here, there) in enumerate(zip(first.epochs, second.epochs, strict=True))
                for number, (one, two) in enumerate(zip(here, there, strict=True))
                if one != two
            )
            cause, place = _blamed(subject, first.splits, second.splits)
            said = f"batch {at[1] + 1} of epoch {at[0] + 1} is another one in the second of two runs with seed {seed}"
            return self.fails(said, {**facts, "epoch": at[0], "batch": at[1]}, (cause,), place)
        if len(first.splits.train) < 2:
            return self.unproved("one sample has no order")
        for same, said in (
            (
                first.epochs[0] == first.epochs[1],
                "the second epoch brings the same batches in the same order as the first",
            ),
            (first.epochs == other.epochs, f"seed {seed + 1} brings the same batches in the same order as seed {seed}"),
        ):
            if same:
                return self.fails(said, facts, (OWN,), _written(first.splits))
        said = f"the first {len(first.epochs[0])} batches of 2 epochs are the same in two runs with seed {seed}, and others in each epoch"
        return self.holds(f"{said} and with seed {seed + 1}", facts)

    # -- of a script --

    def of_script(self, subject: ScriptSubject) -> Proof:
        traces, said = traced_script(subject)
        if len(traces) < 2:
            return self.unproved(f"the script could not be run twice under a trace ({said})")
        first, second = ({loader: _passes(trace, loader) for loader in _trained(trace)} for trace in traces)
        if not first:
            return self.unproved("no batch of a DataLoader was trained on in this run")
        facts: dict[str, object] = {"loaders": len(first), "passes": max(map(len, first.values()))}
        for loader, passes in first.items():
            if passes != second.get(loader):
                number = next(
                    (
                        n
                        for n, (here, there) in enumerate(zip(passes, second.get(loader, []), strict=False))
                        if here != there
                    ),
                    0,
                )
                said = f"pass {number + 1} over the training data brings other batches in the second of two runs"
                return self.fails(said, {**facts, "pass": number}, (UNSEEDED, READ, OWN), _line(traces[0], loader))
        return self._between_epochs(subject, traces[0], first, facts)

    def _between_epochs(
        self, subject: ScriptSubject, trace: Trace, loaders: dict[int, list[list[int]]], facts: dict[str, object]
    ) -> Proof:
        order = {batch.loader: batch.order for batch in trace.batches}
        drawn = {loader: passes for loader, passes in loaders.items() if order[loader] == "drawn"}
        if not drawn:
            return self._in_stored_order(subject, facts)
        several = {loader: passes for loader, passes in drawn.items() if len(passes) > 1}
        if not several:
            return self.unproved(
                "two runs get the same batches, but one pass was made: to compare epochs, try --steps all", facts
            )
        for loader, (one, two, *_) in several.items():
            length = min(len(one), len(two))
            if one[:length] == two[:length]:
                said = f"the second pass brings the same {length} batches in the same order as the first"
                return self.fails(said, facts, (RESEEDED,), _line(trace, loader))
        batches = sum(len(batches) for passes in several.values() for batches in passes)
        return self.holds(
            f"{batches} batches are the same in two runs, and others in each pass over the data",
            {**facts, "batches": batches},
        )

    def _in_stored_order(self, subject: ScriptSubject, facts: dict[str, object]) -> Proof:
        """The samples come as they lie: a fault where the rules find that their order means nothing."""
        for finding in subject.checked.findings("DAT102", "DAT103"):
            return self.fails(finding["message"], {**facts, "code": finding["code"]}, (UNSHUFFLED,), found_at(finding))
        return self.unproved(
            "the loader brings the samples as they lie: whether that is meant cannot be known from outside", facts
        )


# -- recipes --


class _Run(NamedTuple):
    splits: Splits
    epochs: list[list[int]]
    """Digests of the first batches of each."""


def _run(subject: RecipeSubject, start: Start, seed: int) -> _Run:
    """The data are read anew, by a process whose random states nobody has set yet."""
    with fence():
        start.set()
        splits: Splits = subject.recipe.data(subject.request)
        parts = assemble(replace(subject.recipe, data=lambda _: splits, seed=seed), subject.request)
        state = State()
        epochs = [_batches(parts, state, epoch) for epoch in range(2)]
        parts.batches.close()
    return _Run(splits, epochs)


def _batches(parts: Parts, state: State, epoch: int) -> list[int]:
    made = []
    state.epoch, state.batch = epoch, 0  # in place: a loader knows this very object
    for window in islice(parts.batches.windows(state), min(BATCHES, parts.batches.steps_per_epoch)):
        made.append(digest_of_all([tuple(micro) for micro in window.micros]))
        state.batch += 1
    return made


def _blamed(subject: RecipeSubject, one: Splits, other: Splits) -> tuple[Cause, Place | None]:
    """Asked twice for the same samples, under the same seed: does one reading answer otherwise, or the other
    reading?"""
    numbers = torch.arange(min(SAMPLES, len(one.train), len(other.train)))
    here, again, there = (_fetched(splits, numbers) for splits in (one, one, other))
    if here == again and here != there:
        code = getattr(subject.recipe.data, "__code__", None)
        return READ, None if code is None else Place(code.co_filename, code.co_firstlineno, code.co_qualname)
    return OWN, _written(one)


def _fetched(splits: Splits, numbers: torch.Tensor) -> int:
    with fence(1):
        return digest_of_all(tuple(splits.train.fetch(numbers)))


def _written(splits: Splits) -> Place | None:
    return class_place(type(getattr(splits.train, "samples", splits.train)))


# -- scripts --


def _trained(trace: Trace) -> list[int]:
    return sorted({batch.loader for batch in trace.batches if batch.trained})


def _passes(trace: Trace, loader: int) -> list[list[int]]:
    """Digests of the batches of each pass."""
    passes: dict[int, list[int]] = {}
    for batch in trace.batches:
        if batch.loader == loader:
            passes.setdefault(batch.passed, []).append(batch.digest)
    return list(passes.values())


def _line(trace: Trace, loader: int) -> Place | None:
    places: Sequence[int] = [batch.place for batch in trace.batches if batch.loader == loader]
    return place_of(trace, places[0])
