"""How often a GradScaler skips a step.

Whether the optimizer was called shows it without a read. Fused optimizers skip the step in their own kernel: there the
scale is read, after every update on the CPU, rarely on a device, and each halving is one skipped step.
"""

import math
from typing import Final
from weakref import WeakKeyDictionary

from torch.amp import GradScaler

from trueloop.event import Place, ScalerCounted
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import RunEnd, ScalerStep, ScalerUpdate

__all__ = ["ScalerObserver"]

READ_EVERY: Final = 20  # updates between reads of a scale on a device: each makes the host wait
FIRST_COUNT: Final = 32  # steps of a scaler before the first event; then at each doubling, and at the end
SPARE: Final = 4  # steps that the search for a scale may take beyond the way from its first value down to one


class _Count:
    """Counts of one scaler."""

    def __init__(self, scaler: GradScaler, number: int) -> None:
        self.number = number
        self.first_scale = scaler.get_scale()
        fall = math.log(max(2.0, self.first_scale)) / -math.log(scaler.get_backoff_factor())
        self.search = math.ceil(fall) + SPARE  # steps that belong to the search for a scale
        self.steps = self.skipped = self.late_steps = self.late_skipped = 0
        self.place: Place | None = None
        self.fused = False
        self.on_host = True
        self.updates = 0
        self.known_scale: float | None = None  # the scale at the last read, for fused optimizers
        self.seen = self.counted = 0
        """Skips since the last update, and rounds with some since the last look, of optimizers that are not fused."""

    def skip(self, times: int) -> None:
        self.skipped += times
        self.late_skipped += times if self.steps > self.search else 0


class ScalerObserver(Observer):
    emits = (ScalerCounted,)

    def prepare(self) -> None:
        self._counts: WeakKeyDictionary[GradScaler, _Count] = WeakKeyDictionary()

    def watching_resumed(self, nothing: None) -> None:
        for count in self._counts.values():
            count.known_scale = None

    def scaler_stepped(self, call: ScalerStep) -> None:
        count = self._counts.get(call.scaler)
        if count is None:
            count = self._counts[call.scaler] = _Count(call.scaler, self.bus.ordinal("scaler", call.scaler))
            count.known_scale = count.first_scale
        count.place = call.place
        count.steps += 1
        count.late_steps += count.steps > count.search
        if call.skipped:
            count.skip(1)
            count.seen = 1
        elif call.skipped is None and not count.fused:
            count.fused = True
            count.on_host = all(parameter.is_cpu for parameter in parameters_of(call.optimizer))
        if count.steps >= FIRST_COUNT and not count.steps & (count.steps - 1):
            self._report(call.scaler, count, ended=False)

    def scaler_updated(self, call: ScalerUpdate) -> None:
        count = self._counts.get(call.scaler)
        if count is None or not count.fused:
            return
        count.updates += 1
        count.counted, count.seen = count.counted + count.seen, 0
        if not count.on_host and count.updates % READ_EVERY:
            return
        scale = call.scaler.get_scale()
        if count.known_scale is not None and 0 < scale < count.known_scale:
            halvings = round(math.log(count.known_scale / scale) / -math.log(call.scaler.get_backoff_factor()))
            count.skip(max(0, halvings - count.counted))
        count.known_scale, count.counted = scale, 0

    def run_ended(self, end: RunEnd) -> None:
        for scaler, count in list(self._counts.items()):
            self._report(scaler, count, ended=True)

    def _report(self, scaler: GradScaler, count: _Count, *, ended: bool) -> None:
        counts = (count.steps, count.skipped, count.late_steps, count.late_skipped)
        scales = (count.first_scale, scaler.get_scale(), scaler.get_growth_interval())
        self.emit(ScalerCounted, count.place, count.number, *counts, *scales, ended)
