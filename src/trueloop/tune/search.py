"""The search: from the recipe as it stands, one knob at a time, the most promising first; what gains more than noise
and is proved the same training is kept. After one round, what lost a little is tried once more on top of what has been
kept since.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

from trueloop.engine.preflight import machine_problems
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import find_problems
from trueloop.results.tune import Changes, Objective, Outcome, Pace, Trial
from trueloop.tune.knob import Knob, all_knobs
from trueloop.tune.machine_facts import Here
from trueloop.tune.measurer import Measured, Measurer
from trueloop.tune.process import TrialFailed

__all__ = ["REFERENCE", "Search", "reference_changes"]

REFERENCE: Final[Mapping[str, Any]] = {
    "precision": "fp32",
    "compile": "off",
    "compile_dynamic": None,
    "compile_fullgraph": False,
    "program": "eager",
}
"""What makes a recipe the reference: nothing is rounded, fused or recorded that PyTorch does not by itself."""
LEAST: Final = 0.02
"""A gain below this is not worth another value in a recipe, and cannot be told from noise on a busy machine."""
LEAST_MEMORY: Final = 0.03
"""Likewise of memory: pages, pools and caches come and go."""
SLOWEST: Final = 0.5
"""Of the reference's speed: who asks for less memory does not ask for a training of twice the time."""
ROUNDS: Final = 2
AGAIN: Final = 0.85
"""Who lost by more than that in the first round lost by itself, not because of another knob."""


def reference_changes(recipe: Recipe) -> dict[str, Any]:
    """What must be changed in a recipe to make it the reference."""
    return {name: value for name, value in REFERENCE.items() if getattr(recipe, name) != value}


@final
class Search:
    """Of one recipe, for one objective. `told` hears of each trial when it is done."""

    def __init__(
        self,
        recipe: Recipe,
        here: Here,
        measurer: Measurer,
        objective: Objective,
        *,
        fixed: Iterable[str] = (),
        allowed: Iterable[str] = (),
        knobs: Sequence[Knob] | None = None,
        told: Callable[[Trial], None] = lambda _: None,
    ) -> None:
        self.recipe, self.here, self.measurer, self.objective = recipe, here, measurer, objective
        self.fixed, self.allowed, self._knobs, self._told = frozenset(fixed), frozenset(allowed), knobs, told
        self.trials: list[Trial] = []
        self.idle: dict[str, str] = {}
        self.notes: list[str] = []
        self._tried: set[str] = set()
        self._lost: dict[str, float] = {}
        """Option -> what it gained when it was last tried."""

    def run(self) -> Trial:
        """The winner. Raises TrialFailed if the reference itself cannot be measured: then there is nothing to hold
        others against."""
        base = reference_changes(self.recipe)
        pace = self.measurer.pace(base, None).pace
        self.best = self._keep(Trial(0, "reference", base, {}, "reference", pace=pace, gain=1.0, speed=1.0))
        self.here = replace(self.here, step_seconds=pace.step_seconds)
        if base:
            self._try(
                "as it stands", {name: getattr(self.recipe, name) for name in base}, wanted=bool(set(base) & self.fixed)
            )
            if set(base) & self.fixed and self.best.outcome == "reference":
                self.notes.append(
                    "What --set asks for is not proved the same training as fp32, eager: the search went on from that instead."
                )
        knobs = self._knobs if self._knobs is not None else all_knobs(self.here)
        knobs = [
            knob for knob in knobs if self.objective in knob.helps and (knob.name != "batch" or "batch" in self.allowed)
        ]
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
        """That have not been tried on top of the best so far; in a second round, only those that may have lost because
        of another knob."""
        now = self._variant(self.best.changes)
        found = []
        for option in knob.options(now, self.here):
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
        given = {name for option in knob.options(now, self.here) for name in option} & self.fixed
        if given:
            return f"--set gives {', '.join(sorted(given))}"
        return self.idle.get(knob.name) or knob.why_not(now, self.here) or "nothing else is worth trying here"

    def _out_of_time(self, knob: Knob, options: Sequence[Changes]) -> None:
        self.idle.setdefault(
            knob.name, f"no time was left for {len(options)} of its values: a larger --budget would try them"
        )

    # -- one trial --

    def _try(self, knob: str, option: Changes, *, wanted: bool = False) -> None:
        """`wanted`: the user has asked for it; it need not gain, but must be the same training."""
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
        outcome, said = self._judged(made, measured)
        if outcome is not None and not wanted:
            self._add(replace(made, outcome=outcome, said=said))
            self.measurer.keep(self.best.changes)
            return
        self._prove(made)

    def _judged(self, made: Trial, measured: Measured) -> tuple[Outcome | None, str]:
        """No gain, and why; or None: it must be proved."""
        least = 1 + (LEAST_MEMORY if self.objective == "memory" else LEAST)
        if self.objective == "memory" and made.speed < SLOWEST:
            return "no gain", f"{made.speed:.2f}x the speed of the reference: too slow for what it saves"
        if made.gain <= least:
            return "no gain", ""
        if self.objective != "memory" and not measured.sure:
            return "no gain", "the turns do not agree: noise"
        return None, ""

    def _prove(self, made: Trial) -> None:
        try:
            agreement = self.measurer.agreement(made.changes)
        except TrialFailed as failed:
            outcome: Outcome = "unproved" if failed.out_of_time else "failed"
            self._add(replace(made, outcome=outcome, said=f"when it was to be proved: {failed}"))
            self.measurer.keep(self.best.changes)
            return
        if agreement.same:
            self.best = self._keep(replace(made, outcome="kept", agreement=agreement))
        else:
            self._add(replace(made, outcome="refused", said="; ".join(agreement.failures), agreement=agreement))
            self.measurer.keep(self.best.changes)

    def _gain(self, measured: Measured, changes: Changes) -> float:
        best = self.best.pace
        assert best is not None
        if self.objective == "memory":
            return best.peak_bytes / max(1, measured.pace.peak_bytes)
        if self.objective == "latency":
            return measured.faster * self._batch(self.best.changes) / self._batch(changes)
        return measured.faster

    def _in_proportion(self, pace: Pace, speed: float) -> Pace:
        """Its rate reckoned from the ratio, which was measured in turns: two clocks of two minutes cannot be compared
        on a busy machine."""
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
        self._told(trial)

    def _changes(self, option: Changes) -> dict[str, Any]:
        """The best so far with this on top: only what differs from the user's recipe."""
        return {
            name: value
            for name, value in {**self.best.changes, **option}.items()
            if getattr(self.recipe, name) != value
        }

    def _variant(self, changes: Changes) -> Recipe:
        return replace(self.recipe, **changes)


def _key(changes: Changes) -> str:
    return json.dumps(changes, sort_keys=True)
