"""The search: starting from the recipe, one knob at a time, the most promising first. A change is kept if it gains more
than noise and is proved to be the same training. In a second round, small losers are tried again on top of the winners.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, final

from trueloop.engine.preflight import machine_problems
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import find_problems
from trueloop.results.tune import BatchSizes, Changes, Objective, Outcome, Pace, Trial
from trueloop.tune.knobs import Knob, all_knobs
from trueloop.tune.machine_facts import MachineFacts
from trueloop.tune.measurer import Measurement, Measurer
from trueloop.tune.process import TrialFailed

__all__ = ["REFERENCE", "Search", "batch_sizes", "knee_of", "largest_that_fits", "reference_changes"]

_UNCOMPILED: Final = {"compile": "off", "compile_dynamic": None, "compile_fullgraph": False}
REFERENCE: Final[Mapping[str, Any]] = {"precision": "fp32", **_UNCOMPILED, "program": "eager"}
"""Field values of the reference: plain eager PyTorch in fp32."""
LEAST: Final = 0.02  # A smaller gain is not worth a change, and is noise on a busy machine
LEAST_MEMORY: Final = 0.03  # The same for memory
SLOWEST: Final = 0.5  # Share of the reference's speed: saving memory must not double the training time
ROUNDS: Final = 2
AGAIN: Final = 0.85  # An option below this in the first round is not tried again
KNEE: Final = 1.1  # A doubling that gains less than this is past the knee
DOUBLINGS: Final = 6
ROOM: Final = 0.9  # Share of the memory for training; allocators and other programs need the rest


def reference_changes(recipe: Recipe) -> dict[str, Any]:
    """Changes that make a recipe the reference."""
    return {name: value for name, value in REFERENCE.items() if getattr(recipe, name) != value}


@final
class Search:
    """Of one recipe, for one objective. `report` is called after each trial."""

    def __init__(
        self,
        recipe: Recipe,
        facts: MachineFacts,
        measurer: Measurer,
        objective: Objective,
        *,
        fixed: Iterable[str] = (),
        allowed: Iterable[str] = (),
        knobs: Sequence[Knob] | None = None,
        report: Callable[[Trial], None] = lambda _: None,
    ) -> None:
        self.recipe, self.facts, self.measurer, self.objective = recipe, facts, measurer, objective
        self.fixed, self.allowed, self._knobs, self._report = frozenset(fixed), frozenset(allowed), knobs, report
        self.trials: list[Trial] = []
        self.idle: dict[str, str] = {}
        self.notes: list[str] = []
        self._tried: set[str] = set()
        self._lost: dict[str, float] = {}  # Option -> its gain when last tried

    def run(self) -> Trial:
        """The winner. Raises TrialFailed if the reference cannot be measured."""
        base = reference_changes(self.recipe)
        pace = self.measurer.pace(base, None).pace
        self.best = self._keep(Trial(0, "reference", base, {}, "reference", pace=pace, gain=1.0, speed=1.0))
        self.facts = replace(self.facts, step_seconds=pace.step_seconds)
        if base:
            wanted = bool(set(base) & self.fixed)
            self._try("as it is", {name: getattr(self.recipe, name) for name in base}, wanted=wanted)
            if wanted and self.best.outcome == "reference":
                why = "The values of --set are not proved to be the same training as fp32, eager:"
                self.notes.append(f"{why} the search started from that instead.")
        knobs = self._knobs if self._knobs is not None else all_knobs(self.facts)
        batch = "batch" in self.allowed
        knobs = [knob for knob in knobs if self.objective in knob.helps and (knob.name != "batch" or batch)]
        for number in range(ROUNDS):
            kept = self.best.number
            for knob in knobs:
                self._turn(knob, again=number > 0)
            if self.best.number == kept:
                break
        return self.best

    # -- one knob --

    def _turn(self, knob: Knob, *, again: bool) -> None:
        options = self._options(knob, again)
        if not options and not again:
            self.idle.setdefault(knob.name, self._why_not(knob))
        while options:
            if self.measurer.left() <= 0:
                self._out_of_time(knob, options)
                return
            self._try(knob.name, options[0])
            options = self._options(knob, again)

    def _options(self, knob: Knob, again: bool) -> list[Changes]:
        """Options not yet tried on top of the best so far; in the second round, only small losers."""
        now = self._variant(self.best.changes)
        found = []
        for option in knob.options(now, self.facts):
            key = _key(self._changes(option))
            if key in self._tried or set(option) & self.fixed or (again and self._lost.get(_key(option), 1.0) < AGAIN):
                continue
            variant = self._variant(self._changes(option))
            wrong = [*find_problems(variant), *machine_problems(variant)]
            if wrong:
                self.idle[knob.name] = wrong[0]
                continue
            self.idle.pop(knob.name, None)
            found.append(option)
        return found

    def _why_not(self, knob: Knob) -> str:
        now = self._variant(self.best.changes)
        given = {name for option in knob.options(now, self.facts) for name in option} & self.fixed
        if given:
            return f"--set fixes {', '.join(sorted(given))}"
        return self.idle.get(knob.name) or knob.why_not(now, self.facts) or "no other value is worth trying"

    def _out_of_time(self, knob: Knob, options: Sequence[Changes]) -> None:
        self.idle.setdefault(knob.name, f"no time was left for {len(options)} of its values: allow more --minutes")

    # -- one trial --

    def _try(self, knob: str, option: Changes, *, wanted: bool = False) -> None:
        """`wanted`: the user asked for it; it need not gain, but must be the same training."""
        changes = self._changes(option)
        self._tried.add(_key(changes))
        made = Trial(len(self.trials), knob, changes, option, "failed")
        try:
            measured = self.measurer.pace(changes, self.best.changes)
        except TrialFailed as failed:
            self._lost[_key(option)] = 0.0
            self._add(replace(made, said=str(failed)))
            return
        gain = self._gain(measured, changes)
        self._lost[_key(option)] = gain
        speed = measured.faster * self.best.speed
        made = replace(made, pace=self._in_proportion(measured.pace, speed), gain=gain, speed=speed)
        outcome, said = self._verdict(made, measured)
        if outcome is not None and not wanted:
            self._add(replace(made, outcome=outcome, said=said))
            self.measurer.keep(self.best.changes)
            return
        self._prove(made)

    def _verdict(self, made: Trial, measured: Measurement) -> tuple[Outcome | None, str]:
        """No gain, and why; None: compare it with the reference."""
        least = 1 + (LEAST_MEMORY if self.objective == "memory" else LEAST)
        if self.objective == "memory" and made.speed < SLOWEST:
            return "no gain", f"{made.speed:.2f}x the speed of the reference: too slow"
        if made.gain <= least:
            return "no gain", ""
        if self.objective != "memory" and not measured.sure:
            return "no gain", "the turns disagree: noise"
        return None, ""

    def _prove(self, made: Trial) -> None:
        try:
            agreement = self.measurer.agreement(made.changes)
        except TrialFailed as failed:
            outcome: Outcome = "unproved" if failed.out_of_time else "failed"
            self._add(replace(made, outcome=outcome, said=f"while comparing it with the reference: {failed}"))
            self.measurer.keep(self.best.changes)
            return
        if agreement.same:
            self.best = self._keep(replace(made, outcome="kept", agreement=agreement))
        else:
            self._add(replace(made, outcome="refused", said="; ".join(agreement.failures), agreement=agreement))
            self.measurer.keep(self.best.changes)

    def _gain(self, measured: Measurement, changes: Changes) -> float:
        best = self.best.pace
        assert best is not None
        if self.objective == "memory":
            return best.peak_bytes / max(1, measured.pace.peak_bytes)
        if self.objective == "latency":
            return measured.faster * self._batch(self.best.changes) / self._batch(changes)
        return measured.faster

    def _in_proportion(self, pace: Pace, speed: float) -> Pace:
        """Its rate computed from the ratio, which was measured in turns: separate timings are not comparable."""
        first = self.trials[0].pace
        assert first is not None
        samples = pace.samples_per_second * pace.step_seconds
        rate = first.samples_per_second * speed
        return replace(pace, samples_per_second=rate, step_seconds=samples / rate)

    def _batch(self, changes: Changes) -> int:
        return int(changes.get("batch", self.recipe.batch))

    # -- bookkeeping --

    def _keep(self, trial: Trial) -> Trial:
        self._tried.add(_key(trial.changes))
        self._add(trial)
        self.measurer.keep(trial.changes)
        return trial

    def _add(self, trial: Trial) -> None:
        self.trials.append(trial)
        self._report(trial)

    def _changes(self, option: Changes) -> dict[str, Any]:
        """The best so far with this on top: only differences from the user's recipe."""
        values = {**self.best.changes, **option}
        return {name: value for name, value in values.items() if getattr(self.recipe, name) != value}

    def _variant(self, changes: Changes) -> Recipe:
        return replace(self.recipe, **changes)


def _key(changes: Changes) -> str:
    return json.dumps(changes, sort_keys=True)


def batch_sizes(
    recipe: Recipe, facts: MachineFacts, measurer: Measurer, best: Trial, first: int, report: Callable[[Trial], None]
) -> BatchSizes | None:
    """None: no time left, or no larger batch. Each size is a trial, numbered from `first`, that is only reported."""
    assert best.pace is not None
    start = int(best.changes.get("batch", recipe.batch))
    tried = [(start, best.pace.samples_per_second, best.pace.peak_bytes)]
    full = False
    while len(tried) <= DOUBLINGS and tried[-1][0] * 2 <= facts.samples and measurer.left() > 0:
        size = tried[-1][0] * 2
        changes = {**best.changes, "batch": size}
        trial = Trial(first + len(tried) - 1, "batch", changes, {"batch": size}, "reported")
        try:
            measured = measurer.pace(changes, best.changes)
        except TrialFailed as failed:
            report(replace(trial, said=str(failed), outcome="failed"))
            full = "memory" in str(failed)
            break
        # From the ratio, which was measured in turns; two separate timings are not comparable.
        rate = best.pace.samples_per_second * measured.faster
        pace = replace(measured.pace, samples_per_second=rate, step_seconds=size / rate)
        report(replace(trial, pace=pace, gain=measured.faster, speed=measured.faster * best.speed))
        tried.append((size, rate, pace.peak_bytes))
        measurer.keep(best.changes)
        if tried[-1][1] < KNEE * tried[-2][1]:
            break
    if len(tried) < 2:
        return None
    largest, limit = (tried[-1][0], "memory") if full else largest_that_fits(tried, facts.place.memory, facts.samples)
    return BatchSizes(tuple(tried), knee_of(tried), largest, full or largest == tried[-1][0], limit)


def knee_of(tried: Sequence[tuple[int, float, int]]) -> int:
    """The last size that was worth its doubling."""
    knee = tried[0][0]
    for (_, before, _), (size, rate, _) in pairwise(tried):
        if rate < KNEE * before:
            break
        knee = size
    return knee


def largest_that_fits(tried: Sequence[tuple[int, float, int]], memory: int, samples: int) -> tuple[int, str]:
    """Extrapolated: the peak grows linearly with the batch."""
    (small, _, low), (large, _, high) = tried[0], tried[-1]
    each = (high - low) / (large - small)
    if each <= 0:
        return samples, "the number of samples"
    fitting = int(large + (ROOM * memory - high) / each)
    return (samples, "the number of samples") if fitting >= samples else (max(fitting, small), "memory")
