"""Boxes of two corners in the batches of loaders: how many have their corners in the wrong order, by phase."""

from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from trueloop.event import BoxCorners, BoxesCompared, Place
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LoaderStart, ModuleCall, RunEnd

__all__ = ["BoxCornersObserver"]

MOST_BATCHES: Final = 200  # of a phase
MOST_ROWS: Final = 4096
ON_DEVICE: Final = 6
POSITIONS: Final = 8  # tensors of a batch that are examined


@dataclass(slots=True)
class _Phase:
    rows: list[Tensor] = field(default_factory=list)
    count: int = 0
    batches: int = 0
    place: Place | None = None


class BoxCornersObserver(Observer):
    emits = (BoxesCompared,)

    def prepare(self) -> None:
        self._places: dict[int, Place | None] = {}
        self._drawn: tuple[int | None, list[tuple[int, Tensor]]] | None = None  # until a model is called
        self._phases: dict[tuple[int, bool], _Phase] = {}  # by the position in the batch, and whether it is trained on

    def loader_started(self, start: LoaderStart) -> None:
        self._places[self.bus.ordinal("loader", start.loader)] = start.place

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        boxes = [(index, tensor) for index, tensor in enumerate(tensors_in(drawn.batch, 64)) if _may_be_boxes(tensor)]
        stacked = isinstance(drawn.batch, (list, tuple)) and all(isinstance(t, Tensor) for t in drawn.batch)
        kept = [(index if stacked else 0, tensor.detach().reshape(-1, 4)) for index, tensor in boxes[:64]]
        self._drawn = (drawn.number, kept) if kept else None

    def module_call_started(self, call: ModuleCall) -> None:
        if self._drawn is None or self.objects.model(call.module) is None:
            return
        (number, boxes), self._drawn = self._drawn, None
        for position, rows in boxes:
            phase = self._phases.setdefault((position, call.grad), _Phase())
            phase.batches += 1
            if phase.batches > MOST_BATCHES or phase.count >= MOST_ROWS or position >= POSITIONS:
                continue
            phase.place = phase.place or (None if number is None else self._places.get(number))
            phase.rows.append(rows.double().clone())
            phase.count += len(rows)

    def run_ended(self, end: RunEnd) -> None:
        for (position, trained), phase in self._phases.items():
            other = self._phases.get((position, False))
            if trained and other is not None and phase.rows and other.rows:
                training, evaluation = torch.cat(phase.rows), torch.cat(other.rows)
                if bool(training.isfinite().all() and evaluation.isfinite().all()):
                    self.emit(BoxesCompared, phase.place, _corners(training), _corners(evaluation))


def _may_be_boxes(tensor: Tensor) -> bool:
    fits = is_plain(tensor) and is_readable(tensor) and tensor.ndim in (2, 3) and tensor.shape[-1] == 4
    return fits and tensor.is_floating_point() and tensor.is_cpu and not tensor.requires_grad


def _corners(rows: Tensor) -> tuple[BoxCorners, BoxCorners]:
    """Of both axes: (x1, x2) and (y1, y2)."""
    return _axis(rows[:, 2] - rows[:, 0]), _axis(rows[:, 3] - rows[:, 1])


def _axis(sizes: Tensor) -> BoxCorners:
    reversed_ = sizes[sizes < 0].abs()
    ordered = sizes[sizes > 0]
    medians = [float(part.median()) if len(part) else 0.0 for part in (ordered, reversed_)]
    smallest = float(sizes.abs().min()) if len(sizes) else 0.0
    return BoxCorners(len(sizes), len(reversed_), medians[0], medians[1], smallest)
