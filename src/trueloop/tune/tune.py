"""`tune(request)`: gather facts, search, try larger batches, return what was chosen. Earlier results are cached per
machine, model, version and options in the user's cache folder."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import torch

from trueloop import __version__
from trueloop.engine.preflight import machine_problems
from trueloop.profile.ceilings import read_cache, write_cache
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.recipe.validate import validate
from trueloop.recipes.catalogue import find_recipe
from trueloop.results.tune import Changes, Idle, Objective, Trial, Tuning, read_tuning
from trueloop.tune.machine_facts import MachineFacts, gather_facts
from trueloop.tune.measurer import Measurer
from trueloop.tune.process import TrialSpec
from trueloop.tune.process_measurer import ProcessMeasurer
from trueloop.tune.search import Search, batch_sizes, reference_changes

__all__ = ["TuneRequest", "cache_key", "read_cached", "tune", "write_cached"]


FILE: Final = "tunings.json"
VERSION: Final = 1  # Increase it when the search or the comparison changes


@dataclass(frozen=True, slots=True)
class TuneRequest:
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
        return find_recipe(self.word, self.arguments, self.settings)

    @property
    def subject(self) -> str:
        words = [self.word, *([self.arguments["table"]] if "table" in self.arguments else [])]
        return " ".join([*words, *(f"--set {name}={value}" for name, value in self.settings.items())])


def tune(request: TuneRequest, report: Callable[[Trial], None], measurer: Measurer | None = None) -> Tuning:
    """Raises TrialFailed if the reference cannot be measured. Errors of the user's data or model pass through."""
    began = time.monotonic()
    recipe = request.recipe()
    validate(recipe, machine_problems(recipe))
    facts = gather_facts(recipe, DataRequest(request.data, request.download, recipe.seed))
    key = cache_key(recipe, facts, request.objective, request.seeds, request.allowed, request.settings)
    known = None if request.fresh else read_cached(key)
    if known is not None and known.budget >= request.seconds:
        return replace(known.from_cache(), subject=request.subject)
    made = measurer or _measurer(request, recipe, facts)
    try:
        done = _search(request, recipe, facts, made, report)
    finally:
        made.close()
    done = replace(done, seconds=time.monotonic() - began, when=time.time())
    write_cached(key, done)
    return done


def _measurer(request: TuneRequest, recipe: Recipe, facts: MachineFacts) -> ProcessMeasurer:
    spec = TrialSpec(
        word=request.word,
        arguments=dict(request.arguments),
        settings=dict(request.settings),
        data=None if request.data is None else str(request.data),
        download=request.download,
        reference=reference_changes(recipe),
    )
    memory = facts.place.memory if facts.device == "cuda" else 0
    return ProcessMeasurer(spec, request.seconds, request.seeds, device_memory=memory)


def _search(
    request: TuneRequest, recipe: Recipe, facts: MachineFacts, measurer: Measurer, report: Callable[[Trial], None]
) -> Tuning:
    fixed = {name.partition(".")[0] for name in request.settings}
    search = Search(recipe, facts, measurer, request.objective, fixed=fixed, allowed=request.allowed, report=report)
    best = search.run()
    trials = list(search.trials)

    def add(trial: Trial) -> None:
        trials.append(trial)
        report(trial)

    sizes = None
    if "batch" not in request.allowed and "batch" not in fixed and request.objective != "memory":
        sizes = batch_sizes(recipe, facts, measurer, best, len(trials), add)
    return Tuning(
        subject=request.subject,
        place=facts.place,
        objective=request.objective,
        trials=tuple(trials),
        winner=best.number,
        idle=tuple(Idle(knob, why) for knob, why in search.idle.items()),
        batches=sizes,
        notes=tuple(_notes(search)),
        budget=request.seconds,
        fixed=_plain(recipe, fixed),
    )


def _plain(recipe: Recipe, fixed: set[str]) -> Changes:
    return {name: value for name, value in describe(recipe).items() if name in fixed}


def _notes(search: Search) -> list[str]:
    notes = list(search.notes)
    if search.measurer.left() <= 0:
        notes.append("The time was used up before everything had been tried: more --minutes may find more.")
    if search.facts.device == "cpu" and search.best.changes.get("threads"):
        notes.append("The thread count depends on how busy the machine was.")
    return notes


def cache_key(
    recipe: Recipe,
    facts: MachineFacts,
    objective: Objective,
    seeds: int,
    allowed: Iterable[str],
    settings: Mapping[str, str],
) -> str:
    """Everything that the result depends on."""
    asked = {
        "version": VERSION,
        "trueloop": __version__,
        "torch": torch.__version__,
        "device": facts.place.name,
        "cores": [facts.place.cores, facts.cores, facts.threads],
        "memory": facts.place.memory,
        "recipe": describe(recipe),
        "model": facts.shapes,
        "samples": facts.samples,
        "objective": objective,
        "seeds": seeds,
        "allowed": sorted(allowed),
        "fixed": sorted(settings),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def read_cached(key: str) -> Tuning | None:
    try:
        return read_tuning(read_cache(FILE)[key])
    except (KeyError, TypeError, ValueError):
        return None  # none, or written by another version


def write_cached(key: str, made: Tuning) -> None:
    write_cache(FILE, {**read_cache(FILE), key: made.plain()})
