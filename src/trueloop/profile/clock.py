"""The clock: every nanosecond of a step belongs to one phase.

A stack of phases; the top one is charged whatever passes until the next moment. So the phases of a step add up to it,
and what no tap knows (Python, the user's own operations between the calls) is what is left on the bottom of the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean, median
from time import perf_counter_ns
from typing import Any, Final, final

from trueloop.results.profile import PHASES, Phase, Steps
from trueloop.taps.calls import (
    BackwardCall,
    BatchDrawn,
    ClipCall,
    CollectiveCall,
    LossCall,
    ModuleCall,
    StateSave,
    StepCall,
)

__all__ = ["Clock", "Piece", "Timed", "no_shorter_than", "summary"]

MIDDLE: Final = 0.25
"""Share of the steps that is left out on each side before the mean is taken: an interrupt, a garbage collection, a busy
neighbour."""
ENOUGH: Final = 6
"""Ordinary steps from which on those with an evaluation or a save before them are left out."""

Piece = tuple[Phase, int, int]
"""A phase, from when to when."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One step."""

    ns: int
    phases: dict[Phase, int]

    @property
    def ordinary(self) -> bool:
        return not self.phases["evaluating"] and not self.phases["saving"]


@final
class Clock:
    """Listens to the bus; `step_over` is called when a step has ended."""

    def __init__(self, waited: Callable[[], float] | None = None) -> None:
        self.steps: list[Timed] = []
        self.pieces: list[Piece] = []
        """What happened when, while `recording`."""
        self.recording = False
        self.counting = False
        """Are steps kept? Not those of the warm-up, nor those under an instrument that is slow itself."""
        self._waited = waited
        """Seconds that a loop of our own has waited for data so far: it has no DataLoader to be seen."""
        self._waited_before = 0.0
        self._stack: list[Phase] = ["python"]
        self._phases: dict[Phase, int] = dict.fromkeys(PHASES, 0)
        self._began = self._at = perf_counter_ns()

    # -- a step --

    def step_over(self) -> None:
        now = self._mark()
        if self.counting:
            self.steps.append(Timed(now - self._began, self._phases))
        self.restart()

    def restart(self) -> None:
        """Begin a step now; what has passed since the last moment was an instrument's."""
        self._stack = ["python"]
        self._phases = dict.fromkeys(PHASES, 0)
        self._began = self._at = perf_counter_ns()

    def ran_ahead(self, first: int, ns: int) -> None:
        """The steps from `first` on were sent to the device faster than it took them: it was done so much later, and
        they took that too."""
        late = self.steps[first:]
        for number, step in enumerate(late, first):
            phases = step.phases | {"device": step.phases["device"] + ns // len(late)}
            self.steps[number] = Timed(step.ns + ns // len(late), phases)

    # -- moments --

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        self._since("data", perf_counter_ns() - drawn.waited_ns)

    def module_call_started(self, call: ModuleCall) -> None:
        self._own_loader()
        self._push("forward" if call.grad else "evaluating")

    def module_call_ended(self, call: ModuleCall) -> None:
        self._pop()

    def loss_called(self, call: LossCall) -> None:
        self._since("forward" if call.output.requires_grad else "evaluating", call.began_ns)

    def backward_started(self, call: BackwardCall) -> None:
        self._push("backward")

    def backward_ended(self, call: BackwardCall) -> None:
        self._pop()

    def clip_started(self, call: ClipCall) -> None:
        self._push("optimizer")

    def clip_ended(self, call: ClipCall) -> None:
        self._pop()

    def step_started(self, call: StepCall) -> None:
        self._push("optimizer")

    def step_ended(self, call: StepCall) -> None:
        self._pop()

    def collective_called(self, call: CollectiveCall) -> None:
        self._push("communication")

    def collective_ended(self, call: CollectiveCall) -> None:
        self._pop()

    def state_saving(self, call: StateSave) -> None:
        self._push("saving")

    def state_saved(self, call: StateSave) -> None:
        self._pop()

    def copied(self, began_ns: int) -> None:
        self._since("copy", began_ns)

    def read(self, began_ns: int) -> None:
        """A value was taken from the device: the host stood still until it was there."""
        self._since("device", began_ns)

    # -- the stack --

    def _mark(self) -> int:
        now = perf_counter_ns()
        self._charge(self._stack[-1], now)
        return now

    def _charge(self, phase: Phase, until: int) -> None:
        if until > self._at:
            self._phases[phase] += until - self._at
            if self.recording:
                self.pieces.append((phase, self._at, until))
            self._at = until

    def _push(self, phase: Phase) -> None:
        self._mark()
        self._stack.append(phase)

    def _pop(self) -> None:
        self._mark()
        if len(self._stack) > 1:
            self._stack.pop()

    def _since(self, phase: Phase, began_ns: int) -> None:
        """What passed from then until now was this."""
        self._charge(self._stack[-1], began_ns)
        self._charge(phase, perf_counter_ns())

    def _own_loader(self) -> None:
        if self._waited is None:
            return
        waited = self._waited()
        new = (
            waited - self._waited_before if waited >= self._waited_before else waited
        )  # it is set back to zero now and then
        self._waited_before = waited
        if new > 0:
            self._since("data", max(self._at, perf_counter_ns() - int(new * 1e9)))


def summary(steps: list[Timed]) -> Steps | None:
    """Of the timed steps; None without any."""
    if not steps:
        return None
    ordinary = [step for step in steps if step.ordinary]
    chosen = ordinary if len(ordinary) >= ENOUGH else steps
    by_length = sorted(chosen, key=lambda step: step.ns)
    cut = int(len(by_length) * MIDDLE)
    middle = by_length[cut : len(by_length) - cut]
    times = [step.ns / 1e9 for step in by_length]
    return Steps(
        count=len(chosen),
        seconds=mean(step.ns for step in middle) / 1e9,
        median=median(times),
        p95=times[min(len(times) - 1, int(len(times) * 0.95))],
        phases={phase: mean(step.phases[phase] for step in middle) / 1e9 for phase in PHASES},
        evaluations=_holding(steps, "evaluating"),
        evaluating=_total(steps, "evaluating"),
        saves=_holding(steps, "saving"),
        saving=_total(steps, "saving"),
    )


def no_shorter_than(steps: Steps, busy: float) -> Steps:
    """A device was at work for so long in each step: then no step took less, however fast the host sent them to it, and
    whoever waited for their end (a script that reads its own clock, for one)."""
    missing = busy - steps.seconds
    if missing <= 0:
        return steps
    waited: dict[Phase, float] = {"device": steps.phases.get("device", 0.0) + missing}
    return replace(
        steps, seconds=busy, median=max(steps.median, busy), p95=max(steps.p95, busy), phases={**steps.phases, **waited}
    )


def _holding(steps: list[Timed], phase: Phase) -> int:
    return sum(step.phases[phase] > 0 for step in steps)


def _total(steps: list[Any], phase: Phase) -> float:
    return float(sum(step.phases[phase] for step in steps)) / 1e9
