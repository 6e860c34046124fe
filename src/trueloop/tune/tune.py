"""`tune(asked)`: look around, search, tell about batches, and say what was chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trueloop.engine.preflight import machine_problems
from trueloop.recipe.overrides import apply_overrides
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.recipe.validate import validate
from trueloop.recipes.catalogue import find_recipe
from trueloop.results.tune import Changes, Idle, Objective, Trial, Tuning
from trueloop.tune.batch_sizes import batch_sizes
from trueloop.tune.bench import Bench
from trueloop.tune.cache import key_of, recalled, remember
from trueloop.tune.machine_facts import Here, look_around
from trueloop.tune.measurer import Measurer
from trueloop.tune.search import Search, reference_changes
from trueloop.tune.spec import Spec

__all__ = ["Asked", "tune"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants."""

    word: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    data: Path | None = None
    download: bool = False
    objective: Objective = "throughput"
    seconds: float = 300.0
    seeds: int = 3
    allowed: frozenset[str] = frozenset()
    fresh: bool = False

    def recipe(self) -> Recipe:
        return apply_overrides(find_recipe(self.word, self.arguments), self.settings)

    @property
    def subject(self) -> str:
        words = [self.word, *([self.arguments["table"]] if "table" in self.arguments else [])]
        return " ".join([*words, *(f"--set {name}={value}" for name, value in self.settings.items())])


def tune(asked: Asked, told: Callable[[Trial], None], measurer: Measurer | None = None) -> Tuning:
    """Raises TrialFailed if the recipe itself cannot be measured. What the user's data or model raise is theirs."""
    began = time.monotonic()
    recipe = asked.recipe()
    validate(recipe, machine_problems(recipe))
    here = look_around(recipe, DataRequest(asked.data, asked.download, recipe.seed))
    key = key_of(recipe, here, asked.objective, asked.seeds, asked.allowed, asked.settings)
    known = None if asked.fresh else recalled(key)
    if known is not None and known.budget >= asked.seconds:
        return replace(known.from_cache(), subject=asked.subject)
    made = measurer or _bench(asked, recipe, here)
    try:
        done = _searched(asked, recipe, here, made, told)
    finally:
        made.close()
    done = replace(done, seconds=time.monotonic() - began, when=time.time())
    remember(key, done)
    return done


def _bench(asked: Asked, recipe: Recipe, here: Here) -> Bench:
    spec = Spec(
        word=asked.word,
        arguments=dict(asked.arguments),
        settings=dict(asked.settings),
        data=None if asked.data is None else str(asked.data),
        download=asked.download,
        reference=reference_changes(recipe),
    )
    return Bench(spec, asked.seconds, asked.seeds, device_memory=here.place.memory if here.device == "cuda" else 0)


def _searched(asked: Asked, recipe: Recipe, here: Here, measurer: Measurer, told: Callable[[Trial], None]) -> Tuning:
    fixed = {name.partition(".")[0] for name in asked.settings}
    search = Search(recipe, here, measurer, asked.objective, fixed=fixed, allowed=asked.allowed, told=told)
    best = search.run()
    trials = list(search.trials)

    def report(trial: Trial) -> None:
        trials.append(trial)
        told(trial)

    sizes = None
    if "batch" not in asked.allowed and "batch" not in fixed and asked.objective != "memory":
        sizes = batch_sizes(recipe, here, measurer, best, len(trials), report)
    return Tuning(
        subject=asked.subject,
        place=here.place,
        objective=asked.objective,
        trials=tuple(trials),
        winner=best.number,
        idle=tuple(Idle(knob, why) for knob, why in search.idle.items()),
        batches=sizes,
        notes=tuple(_notes(search)),
        budget=asked.seconds,
        fixed=_plain(recipe, fixed),
    )


def _plain(recipe: Recipe, fixed: set[str]) -> Changes:
    return {name: value for name, value in describe(recipe).items() if name in fixed}


def _notes(search: Search) -> list[str]:
    notes = list(search.notes)
    if search.measurer.left() <= 0:
        notes.append("The budget was spent before everything had been tried: a larger --budget may find more.")
    if search.here.device == "cpu" and search.best.changes.get("threads"):
        notes.append("Thread counts hold for a machine as busy as it is now.")
    return notes
