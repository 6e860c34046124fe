"""The clock assigns every nanosecond of a step to one phase.

It keeps a stack of phases and charges the time until the next event to the top one. So the phases add up to the step,
and everything that no tap sees (Python, the user's operations between calls) is charged to the bottom: Python.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean, median
from time import perf_counter_ns
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.results.profile import PHASES, Phase, Steps
from trueloop.taps import calls
from trueloop.taps.bus import Bus
from trueloop.taps.tap import Patch, is_unwatched

__all__ = ["Clock", "PhaseSpan", "TransferTimer", "extend_to_busy", "summary"]

MIDDLE: Final = 0.25
"""Share of the shortest and the longest steps excluded from the mean: interrupts, garbage collection."""
ENOUGH: Final = 6  # With this many ordinary steps, steps with an evaluation or a save are excluded

PhaseSpan = tuple[Phase, int, int]  # A phase, its start and its end in nanoseconds
READERS: Final = ("item", "cpu", "tolist", "__bool__", "__float__", "__int__")
"""Methods that return a value to the host, which waits for it."""


@dataclass(frozen=True, slots=True)
class TimedStep:
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
        self.steps: list[TimedStep] = []
        self.spans: list[PhaseSpan] = []  # The phases in order, while `recording`
        self.recording = False
        self.counting = False  # Whether steps are kept: not during warm-up or under a slow instrument
        self._waited = waited
        """Seconds that trueloop's own loop waited for data so far: it has no DataLoader to observe."""
        self._waited_before = 0.0
        self._stack: list[Phase] = ["python"]
        self._phases: dict[Phase, int] = dict.fromkeys(PHASES, 0)
        self._began = self._at = perf_counter_ns()

    # -- a step --

    def step_over(self) -> None:
        now = self._mark()
        if self.counting:
            self.steps.append(TimedStep(now - self._began, self._phases))
        self.restart()

    def restart(self) -> None:
        """Begin a step now; the time since the last event belongs to an instrument."""
        self._stack = ["python"]
        self._phases = dict.fromkeys(PHASES, 0)
        self._began = self._at = perf_counter_ns()

    def add_device_lag(self, first: int, ns: int) -> None:
        """Add the device's remaining time `ns` to the steps from `first` on: the host ran ahead of the device."""
        late = self.steps[first:]
        for number, step in enumerate(late, first):
            phases = step.phases | {"device": step.phases["device"] + ns // len(late)}
            self.steps[number] = TimedStep(step.ns + ns // len(late), phases)

    # -- events --

    def batch_drawn(self, drawn: calls.BatchDrawn) -> None:
        self._since("data", perf_counter_ns() - drawn.waited_ns)

    def module_call_started(self, call: calls.ModuleCall) -> None:
        self._own_loader()
        self._push("forward" if call.grad else "evaluating")

    criterion_started = module_call_started

    def loss_called(self, call: calls.LossCall) -> None:
        self._since("forward" if call.output.requires_grad else "evaluating", call.began_ns)

    def backward_started(self, call: calls.BackwardCall) -> None:
        self._push("backward")

    def step_started(self, call: calls.StepCall | calls.ClipCall) -> None:
        self._push("optimizer")

    clip_started = step_started

    def collective_called(self, call: calls.CollectiveCall) -> None:
        self._push("communication")

    def state_saving(self, call: calls.StateSave) -> None:
        self._push("saving")

    def state_saved(self, call: object) -> None:
        self._pop()

    module_call_ended = criterion_ended = backward_ended = clip_ended = step_ended = collective_ended = state_saved

    def copied(self, began_ns: int) -> None:
        self._since("copy", began_ns)

    def read(self, began_ns: int) -> None:
        """The host waited for a value from the device."""
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
                self.spans.append((phase, self._at, until))
            self._at = until

    def _push(self, phase: Phase) -> None:
        self._mark()
        self._stack.append(phase)

    def _pop(self) -> None:
        self._mark()
        if len(self._stack) > 1:
            self._stack.pop()

    def _since(self, phase: Phase, began_ns: int) -> None:
        """Charge the time from `began_ns` until now to this phase."""
        self._charge(self._stack[-1], began_ns)
        self._charge(phase, perf_counter_ns())

    def _own_loader(self) -> None:
        if self._waited is None:
            return
        waited = self._waited()
        new = waited - self._waited_before if waited >= self._waited_before else waited  # the counter may restart
        self._waited_before = waited
        if new > 0:
            self._since("data", max(self._at, perf_counter_ns() - int(new * 1e9)))


def summary(steps: list[TimedStep]) -> Steps | None:
    """Statistics of the timed steps; None without any."""
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
        evaluations=sum(step.phases["evaluating"] > 0 for step in steps),
        evaluating=sum(step.phases["evaluating"] for step in steps) / 1e9,
        saves=sum(step.phases["saving"] > 0 for step in steps),
        saving=sum(step.phases["saving"] for step in steps) / 1e9,
    )


def extend_to_busy(steps: Steps, busy: float) -> Steps:
    """Steps of at least `busy` seconds: a step cannot be shorter than the device's work in it."""
    missing = busy - steps.seconds
    if missing <= 0:
        return steps
    waited: dict[Phase, float] = {"device": steps.phases.get("device", 0.0) + missing}
    median, p95, phases = max(steps.median, busy), max(steps.p95, busy), {**steps.phases, **waited}
    return replace(steps, seconds=busy, median=median, p95=p95, phases=phases)


@final
class TransferTimer:
    """Installed after the warm-up: a warning that PyTorch prints once, from C++, must name the user's frame."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.bus, self.clock = bus, clock
        self._patches: list[Patch] = []

    def install(self) -> None:
        # current_accelerator() says what torch was built for, not what the machine has.
        if torch.accelerator.current_accelerator() is not None and not self._patches:
            self._patches = [Patch(Tensor, name, self._wrap_reader) for name in READERS]
            self._patches += [Patch(Tensor, name, self._wrap_mover) for name in ("to", "cuda")]

    def remove(self) -> None:
        while self._patches:
            self._patches.pop().undo()

    def _quiet(self) -> bool:
        return is_unwatched(self.bus) or self.bus.in_step > 0

    def _wrap_reader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._quiet() or tensor.is_cpu or tensor.is_meta:
                return original(tensor, *args, **kwargs)
            began = perf_counter_ns()
            value = original(tensor, *args, **kwargs)
            self.clock.read(began)
            return value

        return read

    def _wrap_mover(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def move(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._quiet() or tensor.is_meta:
                return original(tensor, *args, **kwargs)
            began = perf_counter_ns()
            moved = original(tensor, *args, **kwargs)
            if tensor.is_cpu != moved.is_cpu:
                (self.clock.copied if tensor.is_cpu else self.clock.read)(began)
            return moved

        return move
