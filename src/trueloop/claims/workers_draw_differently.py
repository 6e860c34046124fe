"""workers-draw-differently: samples that draw random numbers draw others in each worker and epoch.

Augmentation is there to show the model something new each time. A generator that every worker gets a copy of, or a seed
that is set anew for each sample, shows the same few variants again and again, and the loss curves look plausible. And
how many workers make the batches must not matter: it is a question of speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple, final

import torch

from trueloop.claims.claim import Claim
from trueloop.claims.digest import digest_of_all
from trueloop.claims.rerun import found_at
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.data.source import moved
from trueloop.engine.state import State
from trueloop.event import DatasetRedrawn, Place
from trueloop.measure.randomness import fence, seed_all
from trueloop.results.proof import Cause, Proof
from trueloop.taps.fork import CannotFork, run_in_fork
from trueloop.taps.random_sources import SeedRecorder
from trueloop.usercode.ownership import class_place

__all__ = ["WorkersDrawDifferently"]

WORKERS: Final = 2
BATCHES: Final = 4
"""Of an epoch: each worker makes two of them."""
SAMPLES: Final = 8
"""That are drawn again and again, to see whether they draw at all."""
SECONDS: Final = 20.0
"""For drawing them in a copy of the process."""

OWN: Final = Cause(
    "the dataset keeps a generator or a state of its own, of which each worker gets a copy",
    "draw from the global generators, which are seeded for each batch, or make a sample follow from its number",
)
SEEDS: Final = Cause(
    "a seed is set before each sample", "leave it out; for samples that must stay as they are, seed with the number"
)
INIT: Final = Cause(
    "worker_init_fn seeds with a number that does not change",
    "leave it out: PyTorch seeds random, numpy and torch in each worker",
)
AUGMENT: Final = Cause(
    "the augmentation does not draw from the generator that it is given",
    "draw from that generator, and from nothing else",
)


@final
class WorkersDrawDifferently(Claim):
    name = "workers-draw-differently"
    healthy = (
        f"batches are the same with 0 and {WORKERS} workers, and what is drawn for a sample differs from epoch to epoch"
    )
    causes: ClassVar[tuple[Cause, ...]] = (OWN, SEEDS, INIT, AUGMENT)

    # -- of a recipe --

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        here, there = (_batches(subject, workers) for workers in (0, WORKERS))
        facts: dict[str, object] = {"workers": [0, WORKERS], "batches": len(here)}
        parts = _parts(subject)
        unlike = [number for number, (one, other) in enumerate(zip(here, there, strict=True)) if one != other]
        if unlike:
            said = f"{len(unlike)} of {len(here)} batches are others with {WORKERS} workers than with none; the first is batch {unlike[0] + 1}"
            part = next((part for part in parts if _run(part.work, 1) != _run(part.work, 1)), parts[0])
            return self.fails(said, {**facts, "unlike": unlike}, (part.cause,), part.place)
        said = f"{len(here)} batches are the same to the last bit with 0 and {WORKERS} workers"
        asked = [_asked(part) for part in parts]
        facts |= {"draws": any(draws.random for draws in asked)}
        for draws in asked:
            if draws.seeded:
                told = f"{draws.seeded} is called for every sample, or batch, with the same seed: each epoch draws the same numbers"
                return self.fails(told, {**facts, "seeded_by": draws.seeded}, (SEEDS,), draws.place)
        problem = next((draws.problem for draws in asked if draws.problem), "")
        if problem:
            return self.unproved(f"{said}, but the samples could not be drawn again ({problem})", facts)
        chance = (
            "what is drawn for a sample differs from epoch to epoch"
            if facts["draws"]
            else "no sample draws random numbers"
        )
        return self.holds(f"{said}, and {chance}", facts)

    # -- of a script --

    def of_script(self, subject: ScriptSubject) -> Proof:
        for finding in subject.checked.findings("DAT104"):
            cause = {"generator": OWN, "worker_init_fn": INIT, "seed": SEEDS}.get(_cause(subject), OWN)
            return self.fails(
                finding["message"], {"code": "DAT104", **finding["evidence"]}, (cause,), found_at(finding)
            )
        asked = subject.checked.of(DatasetRedrawn)
        drawn = [event for event in asked if not event.refused]
        if not drawn:
            refused = next((event.refused for event in asked), "")
            return self.unproved(
                f"the dataset could not be rehearsed: {refused}"
                if refused
                else "no dataset of the script's own was read"
            )
        alike = next((event for event in drawn if event.identical_across), None)
        if alike is not None:
            return self.unproved(
                f"the draws of {alike.dataset} do not differ between {alike.identical_across}, but it was not trained on for long enough"
            )
        event = max(drawn, key=lambda each: each.workers)
        said = f"{event.samples} samples of {event.dataset}, drawn as {max(event.workers, WORKERS)} workers and two epochs would"
        return self.holds(
            f"{said}, are not drawn alike",
            {"dataset": event.dataset, "workers": event.workers, "samples": event.samples},
        )


def _cause(subject: ScriptSubject) -> str:
    return next((event.cause for event in subject.checked.of(DatasetRedrawn) if event.identical_across), "")


# -- recipes --


def _batches(subject: RecipeSubject, workers: int) -> list[int]:
    """The first of two epochs, from a loader: as they come out of its workers, prepared and augmented."""
    parts = subject.parts(where="loader", workers=workers)
    made: list[int] = []
    state = State()
    try:
        for epoch in range(2):
            state.epoch, state.batch = epoch, 0
            for window in islice(parts.batches.windows(state), min(BATCHES, parts.batches.steps_per_epoch)):
                made.append(digest_of_all([tuple(micro) for micro in window.micros]))
                state.batch += 1
    finally:
        parts.batches.close()
    return made


class _Part(NamedTuple):
    """What makes a batch: the dataset, or the augmentation."""

    work: Callable[[int], Any]
    """Makes one; it is given a seed."""
    cause: Cause
    """Where it makes another one from the same seed."""
    place: Place | None


def _parts(subject: RecipeSubject) -> list[_Part]:
    splits, device = subject.splits, subject.parts().device
    numbers = torch.arange(min(SAMPLES, len(splits.train)))
    written = class_place(type(getattr(splits.train, "samples", splits.train)))
    parts = [_Part(lambda _: tuple(splits.train.fetch(numbers)), OWN, written)]
    if (augment := splits.augment) is not None:
        batch = moved(splits.train.fetch(numbers), device)
        inputs = batch.inputs if splits.prepare is None else splits.prepare(batch.inputs)
        code = getattr(augment, "__code__", None)
        place = None if code is None else Place(code.co_filename, code.co_firstlineno, code.co_qualname)
        parts.append(_Part(lambda seed: augment(inputs, torch.Generator(device).manual_seed(seed)), AUGMENT, place))
    return parts


def _run(work: Callable[[int], Any], seed: int) -> int:
    with fence(seed):
        return digest_of_all(work(seed))


@dataclass(frozen=True, slots=True)
class _Draws:
    """Whether a part draws random numbers."""

    random: bool = False
    seeded: str = ""
    """The function that it calls to seed before it draws, always with the same number; empty: there is none."""
    place: Place | None = None
    problem: str = ""


def _asked(part: _Part) -> _Draws:
    """Under two seeds; and again where its own seeding is not listened to. In a copy of the process: that leaves no
    trace."""
    if _run(part.work, 1) != _run(part.work, 2):
        return _Draws(random=True)

    def deaf() -> tuple[list[int], list[tuple[str, str]], Place | None]:
        seedings, made = SeedRecorder(deaf=True), []
        seedings.install()
        for seed in (1, 2):
            seed_all(seed)
            made.append(digest_of_all(part.work(1)))
        return made, seedings.notes, seedings.place

    try:
        made, calls, place = run_in_fork(deaf, SECONDS)
    except CannotFork as error:
        return _Draws(problem=str(error))
    # One seed for all; with a seed for each number, a sample is meant to stay as it is.
    always = made[0] != made[1] and len(calls) > 1 and len({seed for _, seed in calls}) == 1
    return _Draws(seeded=calls[0][0] if always else "", place=place)
