"""Traffic between host and device per step: values that the user's lines wait for, and batches from pageable memory."""

import weakref
from collections import Counter, defaultdict
from itertools import pairwise
from statistics import median
from time import perf_counter_ns
from typing import Final

from torch import Tensor

from trueloop.event import BatchesCopied, DeviceReads, Place, ReadLine
from trueloop.observers.observer import Observer
from trueloop.taps.calls import TRANSFER_WINDOWS, BatchDrawn, DeviceCopy, DeviceRead, RunEnd, StepCall, tensors_in

__all__ = ["CopiesObserver", "ReadsObserver"]

ROUNDS: Final = 3  # steps in a row that must all show the same
_LAST: Final = TRANSFER_WINDOWS[-1][-1]


class _Row:
    """The steps of one row, and when each ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, int, int]] = []  # (optimizer, number of the step, when)

    def rounds(self) -> list[range]:
        """Between two steps of the optimizer that stepped most often: the step numbers to report with."""
        return [range(first + 1, last + 1) for (_, first, _), (_, last, _) in pairwise(self._most())]

    def length_ms(self) -> float:
        return median(end - begin for (_, _, begin), (_, _, end) in pairwise(self._most())) / 1e6

    def _most(self) -> list[tuple[int, int, int]]:
        counts = Counter(optimizer for optimizer, _, _ in self.ended)
        chosen = counts.most_common(1)[0][0] if counts else -1
        return [end for end in self.ended if end[0] == chosen]


class ReadsObserver(Observer):
    """Values that lines of the user read from the device."""

    emits = (DeviceReads,)

    def prepare(self) -> None:
        self._last = {row[-1] for row in TRANSFER_WINDOWS}
        self._begin()

    def _begin(self) -> None:
        self._row = _Row()
        self._reads: defaultdict[Place, list[tuple[int, str, int]]] = defaultdict(list)
        """(number of the step, reader, duration)."""
        self._device = ""

    def device_read(self, read: DeviceRead) -> None:
        self._device = read.device
        self._reads[read.place].append((self.bus.step, read.function, read.waited_ns))

    def step_ended(self, call: StepCall) -> None:
        step = self.bus.step
        if step > _LAST or not any(step in row for row in TRANSFER_WINDOWS):
            return
        number = self.objects.optimizer(call.optimizer).number
        self._row.ended.append((number, step, perf_counter_ns()))
        if not self._device and (first := _first_parameter(call)) is not None and not first.is_cpu:
            self._device = first.device.type
        if step in self._last:
            self._report()

    def watching_resumed(self, nothing: None) -> None:
        self._begin()

    def run_ended(self, end: RunEnd) -> None:
        self._report()

    def _report(self) -> None:
        rounds = self._row.rounds()
        if self._device and len(rounds) >= ROUNDS:
            regular = [(place, reads) for place, reads in self._reads.items() if _in_each(reads, rounds)]
            lines = tuple(self._line(place, reads, len(rounds)) for place, reads in regular)
            waited = sum(line.waited_ms for line in lines)
            self.emit(DeviceReads, None, self._device, len(rounds), self._row.length_ms(), waited, lines)
        self._begin()

    def _line(self, place: Place, reads: list[tuple[int, str, int]], rounds: int) -> ReadLine:
        readers = tuple(dict.fromkeys(reader for _, reader, _ in reads))
        return ReadLine(place, readers, len(reads), sum(waited for _, _, waited in reads) / rounds / 1e6)


def _first_parameter(call: StepCall) -> Tensor | None:
    return next((p for group in call.optimizer.param_groups for p in group["params"]), None)


def _in_each(reads: list[tuple[int, str, int]], rounds: list[range]) -> bool:
    seen = {step for step, _, _ in reads}
    return all(any(step in seen for step in steps) for steps in rounds)


class CopiesObserver(Observer):
    """Batches of a loader that are copied to a CUDA device from memory that is not pinned."""

    emits = (BatchesCopied,)

    def prepare(self) -> None:
        self._drawn: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        """Tensors of the last batch, with the number of their loader."""
        self._copied: defaultdict[int, list[int]] = defaultdict(list)  # bytes of each copy, by loader, in this step
        self._row: dict[int, list[tuple[int, int, int]]] = {}  # (number of the step, bytes, copies), by loader
        self._reported: set[int] = set()

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if self.bus.step > TRANSFER_WINDOWS[0][-1]:
            return
        if drawn.number is not None and drawn.number not in self._reported:
            self._drawn = {id(t): (weakref.ref(t), drawn.number) for t in tensors_in(drawn.batch) if t.is_cpu}

    def device_copied(self, copy: DeviceCopy) -> None:
        ref, loader = self._drawn.get(id(copy.tensor), (None, -1))
        if ref is None or ref() is not copy.tensor or copy.device != "cuda" or copy.tensor.is_pinned():
            return
        self._copied[loader].append(copy.tensor.nbytes)

    def step_ended(self, call: StepCall) -> None:
        if not self._copied:
            return
        for loader, sizes in self._copied.items():
            row = self._row.setdefault(loader, [])
            if row and self.bus.step - row[-1][0] > max(1, len(self.objects.optimizers)):
                row.clear()  # a step without a copy was between
            row.append((self.bus.step, sum(sizes), len(sizes)))
            if len(row) == ROUNDS and loader not in self._reported:
                self._report(loader, row)
        self._copied.clear()

    def _report(self, loader: int, row: list[tuple[int, int, int]]) -> None:
        self._reported.add(loader)
        megabytes = median(size for _, size, _ in row) / 1e6
        self.emit(BatchesCopied, None, loader, len(row), megabytes, round(median(copies for _, _, copies in row)))
