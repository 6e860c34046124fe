"""The loss over the run: read at each backward at first, then ever more rarely: an even and small sample."""

import math
from collections import deque
from statistics import median
from typing import Final

import torch
from torch import Tensor

from trueloop.event import LossCurve, Place
from trueloop.measure.tensors import is_plain
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, ModuleCall, RunEnd
from trueloop.taps.graph import scaler_of

__all__ = ["LossCurveObserver"]

FIRST: Final = 5  # losses of the start, and of one level
KEPT: Final = 160  # losses to keep per line; beyond that, every second one is dropped
ON_DEVICE: Final = 20  # backwards between reads of a loss on a device: each makes the host wait


class _Course:
    """The losses of one line."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[float] = []
        self.kept: list[float] = []
        self.apart = 1
        self.peak = 0.0
        self._latest: deque[float] = deque(maxlen=FIRST)

    def add(self, loss: float) -> None:
        self._latest.append(loss)
        self.peak = max(self.peak, median(self._latest) if len(self._latest) == FIRST else 0.0)
        if len(self.first) < FIRST:
            self.first.append(loss)
        self.kept.append(loss)
        if len(self.kept) > KEPT:
            self.kept = self.kept[::2]
            self.apart *= 2

    @property
    def last_quarter(self) -> list[float]:
        return self.kept[-max(1, len(self.kept) // 4) :]

    @property
    def swing(self) -> float:
        ordered = sorted(self.last_quarter)
        low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
        return high / low if low > 0 else 1.0


class LossCurveObserver(Observer):
    emits = (LossCurve,)

    def prepare(self) -> None:
        self._courses: dict[Place | None, _Course] = {}
        self._below_zero = False
        self._closures = False
        self._bootstrapped = 0
        self._latest_without_graph = -1

    def module_call_started(self, call: ModuleCall) -> None:
        if not call.grad and self._latest_without_graph != self.bus.step:
            self._latest_without_graph = self.bus.step
            self._bootstrapped += 1

    def backward_started(self, call: BackwardCall) -> None:
        course = self._courses.get(call.place)
        if course is None:
            course = self._courses[call.place] = _Course()
        index = course.count
        course.count = index + 1
        self._closures = self._closures or call.inside_step
        if index % course.apart == 0 and (value := self._value(call, index)) is not None:
            if math.isfinite(value) and value >= 0:
                course.add(value)
            else:
                self._below_zero = True

    def run_ended(self, end: RunEnd) -> None:
        place, course = max(self._courses.items(), key=lambda item: item[1].count, default=(None, _Course()))
        if not course.kept:
            return
        self.emit(
            LossCurve,
            place,
            count=course.count,
            share=course.count / sum(known.count for known in self._courses.values()),
            seen=len(course.kept),
            first=tuple(course.first),
            peak=course.peak,
            end=median(course.last_quarter),
            swing=course.swing,
            below_zero=self._below_zero,
            closures=self._closures,
            optimizers=sum(taken > 0 for taken in self.bus.steps_taken.values()),
            bootstrapped=self._bootstrapped,
        )

    def _value(self, call: BackwardCall, index: int) -> float | None:
        """Without a GradScaler's factor; None if it is not one number, or if reading makes the host wait too often."""
        loss = call.tensors[0] if len(call.tensors) == 1 else None
        if not isinstance(loss, Tensor) or not is_plain(loss) or loss.numel() != 1 or loss.is_meta:
            return None
        if not loss.is_cpu and index % ON_DEVICE and not self.bus.deep:
            return None
        if loss.is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        value = loss.item()
        if not isinstance(value, float):
            return None
        scaler = scaler_of(loss) if self.bus.scaler_used else None
        return value if scaler is None else value / float(scaler.get_scale())
