"""workers-draw-differently: random samples are drawn differently in each worker and epoch.

Augmentation shows the model something new each time. A generator that is copied to every worker, or a seed that is set
again for each sample, shows the same few variants in every epoch, and the loss curves still look plausible. And the
number of workers must not change the batches: it is a matter of speed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, final

import torch

from trueloop.claims.claim import Claim
from trueloop.claims.repeat_runs import batch_digests, finding_place
from trueloop.claims.subject import RecipeSubject, ScriptSubject, dataset_place, function_place
from trueloop.claims.tensor_digest import digest_of_all
from trueloop.data.source import moved
from trueloop.event import DatasetRedrawn, Place
from trueloop.measure.randomness import fence, seed_all
from trueloop.results.proof import Cause, Proof
from trueloop.taps.fork import CannotFork, run_in_fork
from trueloop.taps.random_sources import SeedRecorder

__all__ = ["WorkersDrawDifferently"]

WORKERS: Final = 2
BATCHES: Final = 4  # of an epoch: each worker makes two of them
SAMPLES: Final = 8  # drawn repeatedly, to see whether they are random
SECONDS: Final = 20.0  # limit for drawing them in a forked copy of the process

OWN = Cause(
    "the dataset has its own generator or state, which each worker copies",
    "draw from the global generators, which are seeded for each batch, or make a sample depend on its index only",
)
SEEDS = Cause("a seed is set before each sample", "remove it; for fixed samples, use the index as the seed")
INIT = Cause("worker_init_fn uses a constant seed", "remove it: PyTorch seeds all generators of each worker")
AUGMENT = Cause("the augmentation does not draw from the generator it is given", "draw only from that generator")


@final
class WorkersDrawDifferently(Claim):
    name = "workers-draw-differently"
    tests_own_step = True
    healthy = f"batches are equal with 0 and {WORKERS} workers, and the random draws of a sample differ between epochs"
    causes: ClassVar[tuple[Cause, ...]] = (OWN, SEEDS, INIT, AUGMENT)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        without, with_workers = (_batches(subject, workers) for workers in (0, WORKERS))
        count = len(without)
        facts: dict[str, object] = {"workers": [0, WORKERS], "batches": count}
        sources = _sources(subject)
        differing = [number for number in range(count) if without[number] != with_workers[number]]
        if differing:
            part = next((part for part in sources if part.digest(1) != part.digest(1)), sources[0])
            said = f"{len(differing)} of {count} batches differ between {WORKERS} workers and none"
            said += f"; the first is batch {differing[0] + 1}"
            return self.fails(said, {**facts, "differing": differing}, (part.cause,), part.place)
        said = f"{count} batches are bit-identical with 0 and {WORKERS} workers"
        draws = [_draws(part) for part in sources]
        random = any(each.random for each in draws)
        facts |= {"random": random}
        for each in draws:
            if each.seeded:
                seeded = f"{each.seeded} is called for every sample or batch with the same seed"
                evidence = {**facts, "seeded_by": each.seeded}
                return self.fails(f"{seeded}: each epoch draws the same numbers", evidence, (SEEDS,), each.place)
        for each in (each for each in draws if each.problem):
            return self.unproved(f"{said}, but the samples could not be drawn again ({each.problem})", facts)
        chance = "the random draws of a sample differ between epochs" if random else "no sample is random"
        return self.holds(f"{said}, and {chance}", facts)

    def try_script(self, subject: ScriptSubject) -> Proof:
        events = subject.checked.of(DatasetRedrawn)
        repeated = next((event for event in events if event.identical_across), None)
        for finding in subject.checked.findings("DAT104"):
            kind = repeated.cause if repeated else ""
            cause = {"generator": OWN, "worker_init_fn": INIT, "seed": SEEDS}.get(kind, OWN)
            evidence = {"code": "DAT104", **finding["evidence"]}
            return self.fails(finding["message"], evidence, (cause,), finding_place(finding))
        drawn = [event for event in events if not event.refused]
        if not drawn:
            none = "no dataset of the script itself was read"
            return self.unproved(f"the samples could not be drawn again: {events[0].refused}" if events else none)
        if repeated is not None:
            said = f"the draws of {repeated.dataset} are identical across {repeated.identical_across}"
            return self.unproved(f"{said}, but it was not trained on for long enough")
        event = max(drawn, key=lambda each: each.workers)
        said = f"{event.samples} samples of {event.dataset} differ between {max(event.workers, WORKERS)} workers"
        facts = {"dataset": event.dataset, "workers": event.workers, "samples": event.samples}
        return self.holds(f"{said} and two epochs", facts)


# -- recipes --


def _batches(subject: RecipeSubject, workers: int) -> list[int]:
    """Digests of the first batches of two epochs, from a loader with this number of workers."""
    parts = subject.parts(where="loader", workers=workers)
    try:
        return [digest for epoch in batch_digests(parts, BATCHES) for digest in epoch]
    finally:
        parts.batches.close()


class _Part(NamedTuple):
    """The dataset, or the augmentation."""

    work: Callable[[int], Any]  # takes a seed, returns samples
    cause: Cause  # if it returns different samples for the same seed
    place: Place | None

    def digest(self, seed: int) -> int:
        with fence(seed):
            return digest_of_all(self.work(seed))


def _sources(subject: RecipeSubject) -> list[_Part]:
    splits, device = subject.splits, subject.parts().device
    numbers = torch.arange(min(SAMPLES, len(splits.train)))
    found = [_Part(lambda _: tuple(splits.train.fetch(numbers)), OWN, dataset_place(splits))]
    if (augment := splits.augment) is not None:
        batch = moved(splits.train.fetch(numbers), device)
        inputs = batch.inputs if splits.prepare is None else splits.prepare(batch.inputs)
        place = function_place(augment)
        given = (inputs, batch.targets) if splits.augments_targets else (inputs,)
        found.append(_Part(lambda seed: augment(*given, torch.Generator(device).manual_seed(seed)), AUGMENT, place))
    return found


@dataclass(frozen=True, slots=True)
class _Draws:
    random: bool = False  # the part draws random numbers
    seeded: str = ""  # the function that it calls to seed before it draws, always with the same seed; empty: none
    place: Place | None = None
    problem: str = ""


def _draws(part: _Part) -> _Draws:
    """Under two seeds; and again with its own seeding disabled, in a forked copy of the process."""
    if part.digest(1) != part.digest(2):
        return _Draws(random=True)

    def without_seeding() -> tuple[list[int], list[tuple[str, str]], Place | None]:
        seedings, digests = SeedRecorder(deaf=True), []
        seedings.install()
        for seed in (1, 2):
            seed_all(seed)
            digests.append(digest_of_all(part.work(1)))
        return digests, seedings.notes, seedings.place

    try:
        digests, calls, place = run_in_fork(without_seeding, SECONDS)
    except CannotFork as error:
        return _Draws(problem=str(error))
    # One seed for all samples; with one seed per index, a sample is meant to stay the same.
    always = digests[0] != digests[1] and len(calls) > 1 and len({seed for _, seed in calls}) == 1
    return _Draws(seeded=calls[0][0] if always else "", place=place)
