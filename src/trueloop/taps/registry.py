"""Installs and removes all taps of a bus, and lets them sleep to stay inside the budget.

The first steps of a run are always watched. Then watched windows alternate with pauses, unless watching costs less than
the budget. The length of a pause follows from the *measured* cost: the time of watched steps against unwatched ones in
this run, and the time spent in observers. Without a budget of the user's, the first thousand steps (five thousand
without a GPU) are watched whatever they cost.
"""

from collections import Counter
from collections.abc import Callable
from statistics import fmean, median
from time import perf_counter_ns
from typing import Final

import torch

from trueloop.event import Place
from trueloop.taps.activation import ActivationTap
from trueloop.taps.backward import BackwardTap
from trueloop.taps.bus import Bus
from trueloop.taps.calls import TRANSFER_WINDOWS
from trueloop.taps.clip import ClipTap
from trueloop.taps.collective import CollectiveTap
from trueloop.taps.decision import DecisionTap
from trueloop.taps.detach import DetachTap
from trueloop.taps.dropout import DropoutTap
from trueloop.taps.file_open import FileOpenTap
from trueloop.taps.finite_check import FiniteCheckTap
from trueloop.taps.function import FunctionTap
from trueloop.taps.loader import LoaderTap
from trueloop.taps.loader_init import LoaderInitTap
from trueloop.taps.loss import LossTap
from trueloop.taps.module import ModuleTap
from trueloop.taps.module_move import ModuleMoveTap
from trueloop.taps.operation import OperationTap
from trueloop.taps.optimizer import OptimizerTap
from trueloop.taps.parameter import ParameterTap
from trueloop.taps.scaler import ScalerTap
from trueloop.taps.schedule import ScheduleTap
from trueloop.taps.state_dict import StateDictTap
from trueloop.taps.tap import Tap
from trueloop.taps.train_mode import TrainModeTap
from trueloop.taps.transfer import TransferTap
from trueloop.taps.weight_alias import WeightAliasTap

__all__ = ["TapRegistry"]

FIRST_WINDOW: Final = 16  # Steps that are always watched: enough for rules that need several steps in a row
FREE_STEPS: Final = 1000  # The same without a budget of the user's: most bugs have shown themselves by then
FREE_ON_HOST: Final = 5000  # The same in a process without a GPU: such runs are short
USUAL_BUDGET: Final = 0.05  # After them, without a budget of the user's
WINDOW: Final = 6  # Steps of each later window: a step is compared with the one before it
FIRST_PAUSE: Final = 60  # Steps of the first pause, before the cost is known
LONGEST_PAUSE: Final = 2000  # With any budget, a change in a long run (a new phase, an unfrozen layer) must be seen
WATCHED_PASSES: Final = 3  # Passes over data, per line, that wake the taps: more would leave no pause in short epochs
EDGES: Final = frozenset(edge for window in TRANSFER_WINDOWS for edge in (window.start, window.stop))
"""Steps at which a transfer window begins or has ended."""
REMEMBERED: Final = 200  # Step times kept on each side for the median


class TapRegistry:
    """The taps of one watched run."""

    def __init__(self, bus: Bus, budget: float | None, last_step: int | None) -> None:
        self.bus = bus
        # The share of the run's time that watching may cost (0.05); from 1 on every step is watched
        self.budget = USUAL_BUDGET if budget is None else budget
        self.last_step = last_step
        self.unwatched_steps = 0
        every: list[Tap] = [
            FileOpenTap(bus), LoaderInitTap(bus), ModuleMoveTap(bus),
            ModuleTap(bus), LossTap(bus), ActivationTap(bus), DecisionTap(bus), DropoutTap(bus), BackwardTap(bus),
            ScalerTap(bus), WeightAliasTap(bus),
            DetachTap(bus), ClipTap(bus), FiniteCheckTap(bus), ScheduleTap(bus), TrainModeTap(bus, self._wake_for),
            StateDictTap(bus),
            ParameterTap(bus), OperationTap(bus), FunctionTap(bus),
            OptimizerTap(bus, self._after_step, self._wake_for), LoaderTap(bus, self._wake_for),
            CollectiveTap(bus), TransferTap(bus),  # last: they patch during the run, and must be removed first
        ]  # fmt: skip
        always = (OptimizerTap,)  # it counts the steps
        self._taps = [tap for tap in every if isinstance(tap, always) or bus.has_subscribers(*tap.topics)]
        self._free = budget is None
        self._next_change = FREE_STEPS if self._free else FIRST_WINDOW
        self._pause_began = 0
        self._stayed = False  # The latest window was prolonged, because watching costs less than the budget
        self._times: dict[bool, list[int]] = {True: [], False: []}
        self._spent: list[int] = []  # inside observers, of each of the watched steps
        self._stepped_at = self._spent_before = 0
        self._passes: Counter[Place | None] = Counter()  # Passes over data, by the line that starts them

    def install(self) -> None:
        self._for_each(lambda tap: tap.install())

    def _for_each(self, action: Callable[[Tap], None]) -> None:
        for tap in tuple(self._taps):
            try:
                action(tap)
            except Exception:  # noqa: BLE001 - an incompatible torch must not stop the training
                self.bus.fail(f"{type(tap).__name__} does not work with this torch and was removed")
                self._taps.remove(tap)
                tap.remove()

    def remove(self) -> None:
        self.bus.awake = False
        for tap in reversed(self._taps):
            tap.remove()

    @property
    def overhead(self) -> float | None:
        """The cost of watching as a fraction of an unwatched step; None before both were measured.

        At least the share of time that observers took: unwatched steps of another minute may have been slower."""
        watched, plain = self._times[True], self._times[False]
        if len(watched) < WINDOW or len(plain) < WINDOW:
            return None
        spent = sum(self._spent) / max(1, sum(watched) - sum(self._spent))
        usual = sorted(watched)[: -(-len(watched) * 9 // 10)]  # without steps that hold an evaluation; waking up counts
        return max(0.0, spent, fmean(usual) / median(plain) - 1)

    def _after_step(self, taken: int) -> None:
        bus, now = self.bus, perf_counter_ns()
        if self._stepped_at and bus.step > FIRST_WINDOW:
            self._measure(now - self._stepped_at)
        self._stepped_at, self._spent_before = now, bus.spent_ns
        self.unwatched_steps += not bus.awake
        if self.last_step is not None and bus.step >= self.last_step:
            bus.stop_reason = f"--steps {self.last_step}"
        bus.deep = bus.step < bus.deep_until
        if bus.step in EDGES:
            self._for_each(lambda tap: tap.window_changed())
        if self._free and bus.step == FREE_STEPS and not _uses_gpu():
            self._next_change = FREE_ON_HOST
        if self._free and _is_near_power(taken):  # many observers look at these steps of an optimizer
            if bus.awake:
                self._next_change = max(self._next_change, bus.step + 1)
            else:
                self._wake_up()
        if self.budget < 1 and bus.step >= self._next_change:
            self._fall_asleep() if bus.awake else self._wake_up()

    def _measure(self, took: int) -> None:
        times = self._times[self.bus.awake]
        times.append(took)
        del times[:-REMEMBERED]
        if self.bus.awake:
            self._spent.append(self.bus.spent_ns - self._spent_before)
            del self._spent[:-REMEMBERED]

    def _wake_for(self, place: Place | None) -> None:
        """Something begins at this line that is worth a look: a pass over data, an evaluation, a new optimizer. Watch
        the first few from each line, and later one after a long pause."""
        self._passes[place] += 1
        rested = self.bus.step - self._pause_began >= (self._next_change - self._pause_began) / 2
        if not self.bus.awake and (rested or self._passes[place] <= WATCHED_PASSES):
            self._wake_up()
            self._stepped_at = 0

    def _fall_asleep(self) -> None:
        cost = self.overhead
        if cost is not None and cost <= self.budget and not self._stayed:
            self._stayed = True  # then a short pause, to measure again
            self._next_change = self.bus.step + LONGEST_PAUSE
            return
        self._stayed = False
        self._pause_began = self.bus.step
        self.bus.awake = False
        self._next_change = self.bus.step + self._pause()
        for tap in self._taps:
            tap.sleep()

    def _wake_up(self) -> None:
        self.bus.awake = True
        self._next_change = self.bus.step + WINDOW
        for tap in self._taps:
            tap.wake()
        self.bus.publish("watching_resumed", None)

    def _pause(self) -> int:
        """Unwatched steps, so that the mean cost over window and pause is the budget."""
        cost = self.overhead
        if cost is None:
            return FIRST_PAUSE
        return min(LONGEST_PAUSE, max(WINDOW, round(WINDOW * cost / max(self.budget, 1e-6))))


def _is_near_power(step: int) -> bool:
    """Shortly before a power of two, or at one."""
    return step >= FIRST_WINDOW and ((1 << step.bit_length()) - step <= WINDOW // 2 or not step & (step - 1))


def _uses_gpu() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
