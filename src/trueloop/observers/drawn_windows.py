"""Where the windows begin that a script cuts out of a long stored stream, in recorded training steps."""

from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import Place, WindowsDrawn
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart, RunEnd
from trueloop.torch_private.tensors import tensor_version

__all__ = ["DrawnWindowsObserver"]

LEAST_LENGTH: Final = 1000
MOST_STREAMS: Final = 8
MOST_WINDOWS: Final = 4096  # of a step


@dataclass(slots=True)
class _Stream:
    place: Place | None
    length: int
    width: int
    version: int
    step: list[int] = field(default_factory=list)  # starts of this step
    ranges: list[tuple[int, int, int]] = field(default_factory=list)  # of each step: first and last start, count
    drawn: set[tuple[int, ...]] = field(default_factory=set)  # different starts, by step
    steady: bool = True  # all windows have one width, and the stream is not written


class DrawnWindowsObserver(Observer):
    emits = (WindowsDrawn,)

    def prepare(self) -> None:
        self._streams: dict[tuple[int, int], _Stream] = {}
        self._recording = False

    def program_started(self, start: ProgramStart) -> None:
        self._recording = start.phase == "training"

    @torch.no_grad()
    def operation_ended(self, call: OperationCall) -> None:
        if not self._recording or call.name not in ("__getitem__", "take") or len(call.args) != 2:
            return
        stored, index = call.args
        if not (is_plain(stored) and stored.ndim == 1 and len(stored) >= LEAST_LENGTH) or stored.requires_grad:
            return
        found = _windows(index)
        key = (stored.data_ptr(), len(stored))
        if found is None or (key not in self._streams and len(self._streams) >= MOST_STREAMS):
            return
        starts, width = found
        version = tensor_version(stored)
        stream = self._streams.setdefault(key, _Stream(call.place, len(stored), width, version))
        # The targets of a language model are windows of the same stream, one further on.
        stream.steady &= stream.version == version and abs(stream.width - width) <= 1
        if len(stream.step) < MOST_WINDOWS:
            stream.step += starts

    def program_ended(self, _: ProgramStart) -> None:
        for stream in self._streams.values():
            if stream.step:
                stream.ranges.append((min(stream.step), max(stream.step), len(stream.step)))
                stream.drawn.add(tuple(stream.step))
            stream.step = []
        self._recording = False

    def run_ended(self, end: RunEnd) -> None:
        for stream in self._streams.values():
            if stream.steady and stream.ranges:
                self.emit(WindowsDrawn, stream.place, stream.length, stream.width, tuple(stream.ranges),
                          len(stream.drawn))  # fmt: skip


def _windows(index: Any) -> tuple[list[int], int] | None:
    """Their starts and their width: a slice, or a grid of positions that follow one another."""
    if isinstance(index, slice):
        bounds = [index.start, index.stop]
        if index.step is not None or not all(type(b) is int or _is_number(b) for b in bounds):
            return None
        first, end = (int(bound) for bound in bounds)
        return ([first], end - first) if 0 <= first < end - 1 else None
    grid = is_plain(index) and is_readable(index) and index.is_cpu and index.dtype == torch.int64 and index.ndim == 2
    if not grid or index.shape[1] < 2 or len(index) > MOST_WINDOWS:
        return None
    if not bool((index[:, 1:] - index[:, :-1] == 1).all()) or index.min() < 0:
        return None
    return index[:, 0].tolist(), index.shape[1]


def _is_number(bound: Any) -> bool:
    """A position that the script drew and did not convert."""
    return isinstance(bound, Tensor) and bound.is_cpu and bound.numel() == 1 and not bound.is_floating_point()
