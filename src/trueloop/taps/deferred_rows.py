"""Rows of metrics whose numbers may still be on a device: read in batches, in the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor

from trueloop.hook import Row

__all__ = ["DeferredRows", "Number", "Part", "Unread"]

Number = float | Tensor  # A tensor: one number on a device


@dataclass(slots=True)
class Part:
    """One value of a row, made of several numbers."""

    name: str
    numbers: list[Number]
    how: Literal["mean", "sum", "first", "total"] = "mean"
    weights: list[int] | None = None  # of a mean
    members: Sequence[Part] = ()  # of a total: the parts it adds up

    def value(self, read: dict[int, float]) -> float:
        """`read`: tensors by their identity."""
        if len(self.numbers) == 1:
            only = self.numbers[0]
            return read[id(only)] if isinstance(only, Tensor) else only
        if self.how == "total":
            return sum(part.value(read) for part in self.members)
        values = [read[id(number)] if isinstance(number, Tensor) else float(number) for number in self.numbers]
        if self.how == "first":
            return values[0]
        if self.how == "sum":
            return sum(values)
        weights = self.weights or [1] * len(values)
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / max(1, sum(weights))


@dataclass(slots=True)
class Unread:
    """A row that is not read yet."""

    kind: Literal["train", "valid"]
    step: int
    epoch: float
    seconds: float
    parts: list[Part]

    def row(self, read: dict[int, float]) -> Row:
        values = {part.name: part.value(read) for part in self.parts}
        return Row(self.kind, self.step, self.epoch, {**values, "seconds": self.seconds})


@final
class DeferredRows:
    def __init__(self, write: Callable[[list[Row]], None]) -> None:
        self._write = write
        self._waiting: list[Row | Unread] = []
        self._reading: _Batch | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, row: Row | Unread) -> None:
        self._waiting.append(row)

    def flush(self, *, wait: bool = False) -> None:
        """Write what has arrived, and start to read the rest. `wait`: for everything."""
        if self._reading is not None:
            if not wait and not self._reading.has_arrived():
                return
            self._write(self._reading.rows())
            self._reading = None
        if not self._waiting:
            return
        tensors = [number for row in self._waiting if isinstance(row, Unread) for number in _tensors(row)]
        if any(tensor.is_cuda for tensor in tensors) and torch.cuda.is_current_stream_capturing():
            return  # a copy would become a part of the script's graph
        batch, self._waiting = _Batch(self._waiting, tensors), []
        if tensors and not wait:
            self._reading = batch
        else:
            self._write(batch.rows())


def _tensors(row: Unread) -> Iterator[Tensor]:
    for part in row.parts:
        for number in part.numbers:
            if isinstance(number, Tensor):
                yield number


@final
class _Batch:
    """Rows whose numbers are on their way to the host."""

    def __init__(self, waiting: list[Row | Unread], tensors: list[Tensor]) -> None:
        self._waiting, self._tensors = waiting, tensors
        self._copies: list[tuple[list[Tensor], Tensor]] = []
        self._events: list[Any] = []
        for device in dict.fromkeys(tensor.device for tensor in tensors):
            here = [tensor for tensor in tensors if tensor.device == device]
            with torch.no_grad():
                self._copies.append((here, torch.stack(here).to("cpu", non_blocking=device.type == "cuda")))
            if device.type == "cuda":
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record(torch.cuda.current_stream(device))
                self._events.append(event)

    def has_arrived(self) -> bool:
        return all(event.query() for event in self._events)

    def rows(self) -> list[Row]:
        for event in self._events:
            event.synchronize()
        read = {
            id(tensor): value
            for tensors, copy in self._copies
            for tensor, value in zip(tensors, copy.tolist(), strict=True)
        }
        return [each.row(read) if isinstance(each, Unread) else each for each in self._waiting]
