"""Measures trials, each in its own process: the best so far and its challenger are timed in turns, with limits on time
and memory."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import Any, Final, final

from trueloop.results.tune import Agreement, Changes, Pace
from trueloop.tune.agreement import Evidence, agreement_of
from trueloop.tune.measurer import Measurement, Measurer
from trueloop.tune.process import Process, TrialFailed, TrialSpec

__all__ = ["ProcessMeasurer", "free_memory", "median_gain"]

WINDOW: Final = 0.25  # Seconds of one turn: longer than a scheduler slice, shorter than changes of load
TURNS: Final = 5  # For each of the two
MORE_TURNS: Final = 9  # Where the first turns are inconclusive
OPEN: Final = 0.05  # A gain or loss below this with turns that disagree is inconclusive
HOPELESS: Final = 0.9  # Below this after three turns, no more turns are needed
MEMORY_SHARE: Final = 0.8  # Share of the free memory that a trial may use
DEVICE_SHARE: Final = 0.9  # Share of a CUDA device that two trials together may use
TOGETHER: Final = 0.35  # Share of a CUDA device: a trial that uses more leaves too little room for another
LONGEST: Final = 0.5  # Share of the time for one trial: a hang must not use all of it
PROOF_SHARE: Final = 0.12  # Share of the time for the evidence of the reference
STEPS: Final = (20, 100)  # Fewest and most steps of a comparison
MOVED: Final = 2  # Loss curves of the reference from perturbed weights


def free_memory() -> int:
    """Available bytes."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 1 << 62
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), 1 << 62)


def median_gain(ratios: list[float]) -> tuple[float, bool]:
    """The median, and whether three quarters of the turns are on its side of 1."""
    gain = median(ratios)
    if len(ratios) < 2:
        return gain, True
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return gain, low > 1.0 if gain > 1.0 else high < 1.0


@final
class ProcessMeasurer(Measurer):
    """`spec`: the recipe and the changes for the reference; `seconds`: the available time."""

    def __init__(
        self,
        spec: TrialSpec,
        seconds: float,
        seeds: int,
        *,
        device_memory: int = 0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.spec, self.seconds, self.seeds, self.device_memory = spec, seconds, seeds, device_memory
        self._clock = clock
        self._end = clock() + seconds
        self._alive: dict[str, Process] = {}
        self._paces: dict[str, Pace] = {}
        self._evidence: Evidence | None = None
        self._samples: dict[str, float] = {}
        self._starts: dict[str, float] = {}
        self._first = ""
        self.steps = STEPS[0]  # Of a comparison

    # -- the seam --

    def left(self) -> float:
        return self._end - self._clock()

    def pace(self, changes: Changes, against: Changes | None) -> Measurement:
        challenger = self._started(changes)
        best = None if against is None or _key(against) not in self._alive else against
        try:
            turns = self._in_turns(challenger, best)
        except TrialFailed:
            self._forget(changes)
            raise
        made = self._pace_of(changes, turns[0])
        self._paces[_key(changes)] = made
        if against is None:
            self._reference(changes)
            return Measurement(made)
        if best is None:  # too large to stay alive: use its earlier numbers
            known = self._paces[_key(against)]
            rates = [known.step_seconds / each for each in turns[0]]
        else:
            rates = [theirs / ours for ours, theirs in zip(*turns, strict=True)]
        gain, sure = median_gain(rates)
        return Measurement(made, gain * self._samples[_key(changes)] / self._samples[_key(against)], sure)

    def agreement(self, changes: Changes) -> Agreement:
        assert self._evidence is not None, "measure the reference first"
        order = self._order()
        if "batch" in changes:  # other steps: the same number of samples, and only the metric
            share = self._samples[self._first] / self._samples[_key(changes)]
            order |= {"steps": max(1, round(self.steps * share)), "curve": False, "gradients": False}
        return agreement_of(self._evidence, self._ask_for_evidence(changes, order))

    def keep(self, changes: Changes) -> None:
        for key in list(self._alive):
            if key != _key(changes) or self._is_large(key):
                self._alive.pop(key).end()

    def close(self) -> None:
        while self._alive:
            self._alive.popitem()[1].end()

    # -- processes --

    def _until(self) -> float:
        """A deadline of `monotonic`."""
        return monotonic() + max(0.0, min(self.left(), max(60.0, LONGEST * self.seconds)))

    def _started(self, changes: Changes) -> Process:
        key = _key(changes)
        self._forget(changes)
        every = 0 if not self._samples else self.spec.log_every
        held = sum(self._paces[other].peak_bytes for other in self._alive if other in self._paces)
        fraction = DEVICE_SHARE - (held / self.device_memory if self.device_memory else 0.0)
        spec = replace(self.spec, changes=changes, log_every=every, fraction=max(0.1, fraction))
        process = self._alive[key] = Process(spec, int(MEMORY_SHARE * free_memory()))
        try:
            ready = process.listen(self._until())["ready"]
        except TrialFailed:
            self._forget(changes)
            raise
        self._samples[key] = float(ready["samples"])
        self._starts[key] = float(ready["start"])
        if not self.spec.log_every:
            self.spec = replace(self.spec, log_every=int(ready["every"]))
        return process

    def _forget(self, changes: Changes) -> None:
        process = self._alive.pop(_key(changes), None)
        if process is not None:
            process.end()

    def _is_large(self, key: str) -> bool:
        pace = self._paces.get(key)
        return bool(self.device_memory and pace and pace.peak_bytes > TOGETHER * self.device_memory)

    # -- turns --

    def _in_turns(self, challenger: Process, best: Changes | None) -> tuple[list[float], list[float]]:
        """Seconds per step of each turn, of both."""
        ours: list[float] = []
        theirs: list[float] = []
        turns = TURNS
        while len(ours) < turns:
            ours.append(self._turn(challenger))
            if best is not None:
                theirs.append(self._turn_of_best(best))
                gain, sure = median_gain([other / one for one, other in zip(ours, theirs, strict=True)])
                if len(ours) == 3 and gain < HOPELESS and sure:
                    break
                if len(ours) == TURNS and abs(gain - 1) < OPEN and not sure:
                    turns = MORE_TURNS
        return ours, theirs

    def _turn_of_best(self, best: Changes) -> float:
        """Its training may have ended: then it is started again."""
        try:
            return self._turn(self._alive[_key(best)])
        except TrialFailed:
            if self.left() <= 0:
                raise
            return self._turn(self._started(best))

    def _turn(self, process: Process) -> float:
        answer = process.ask({"do": "window", "seconds": WINDOW}, self._until())
        process.peak = int(answer["peak"])
        steps = list(map(float, answer["window"]))
        return median(steps[1:] or steps)  # see `trial.FEWEST`

    def _pace_of(self, changes: Changes, turns: list[float]) -> Pace:
        seconds = median(turns)
        low, _, high = quantiles(turns, n=4, method="inclusive") if len(turns) > 1 else (seconds, seconds, seconds)
        return Pace(
            samples_per_second=self._samples[_key(changes)] / seconds,
            step_seconds=seconds,
            peak_bytes=self._alive[_key(changes)].peak,
            start_seconds=self._starts[_key(changes)],
            windows=len(turns),
            spread=(high - low) / 2 / seconds,
        )

    # -- evidence --

    def _reference(self, changes: Changes) -> None:
        """Evidence of the reference, for all comparisons."""
        self._first = _key(changes)
        runs = 1 + MOVED + self.seeds
        fitting = PROOF_SHARE * self.seconds / (runs * self._paces[_key(changes)].step_seconds)
        self.steps = int(max(STEPS[0], min(STEPS[1], fitting)))
        found = self._ask_for_evidence(changes, self._order(moved=MOVED, gradients=False))
        if found.ended:
            raise TrialFailed(f"its training ends early: {found.ended}")
        self._evidence = found

    def _order(self, **more: Any) -> dict[str, Any]:
        return {"steps": self.steps, "seeds": self.seeds, **more}

    def _ask_for_evidence(self, changes: Changes, order: dict[str, Any]) -> Evidence:
        process = self._alive.get(_key(changes))
        if process is None:
            process = self._started(changes)
        try:
            return Evidence.of(process.ask({"do": "prove", "order": order}, self._until())["proof"])
        except TrialFailed:
            self._forget(changes)
            raise


def _key(changes: Changes) -> str:
    return json.dumps(changes, sort_keys=True)
