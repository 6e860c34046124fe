"""Predictions of a regression beside their targets, at the start and at the end of the training.

A call of a loss function is read now and then; a difference that the script itself squares or takes the absolute value
of is read in recorded steps. A few hundred numbers are kept.
"""

import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import FittedColumn, Place, PredictionsFitted
from trueloop.event.operation_names import DIFFERENCES, DISTANCE_LOSSES, MAGNITUDES, NORMS, PRODUCTS
from trueloop.measure.fit import fitted_column
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, OperationCall, ProgramStart, RunEnd

__all__ = ["FitObserver"]

FIRST_CALLS: Final = 32  # of a line: all are read; then ever fewer
KEPT: Final = 12  # calls
ON_DEVICE: Final = 64  # calls between two reads on a device, where a read makes the host wait
ROWS: Final = 256  # of a call
COLUMNS: Final = 16  # more of them count as one
MOST_LINES: Final = 16
MOST_TARGETS: Final = 20_000  # remembered, to see whether they come again
_DISTANCES: Final = MAGNITUDES | NORMS

_Difference = tuple[weakref.ref[Tensor], Tensor, Tensor, Place | None]
"""The result, samples of the prediction and the target, and the line."""
_Sample = tuple[int, Tensor, Tensor]  # call or step, predictions, targets: [rows, columns]


@dataclass(slots=True)
class _Line:
    function: str
    first: _Sample | None = None
    latest: deque[_Sample] = field(default_factory=lambda: deque(maxlen=KEPT))
    calls: int = 0
    next_call: int = 0
    targets: set[float] = field(default_factory=set)
    later: int = 0  # targets that were looked up among earlier ones
    known: int = 0  # of them: found


class FitObserver(Observer):
    emits = (PredictionsFitted,)

    def prepare(self) -> None:
        self._lines: dict[Place | None, _Line] = {}
        self._differences: dict[int, _Difference] = {}

    def loss_called(self, loss: LossCall) -> None:
        if loss.function in DISTANCE_LOSSES and loss.output.requires_grad and not loss.target.requires_grad:
            line = self._line(loss.place, loss.function)
            if line is None:
                return
            line.calls += 1
            if line.calls > line.next_call:
                apart = max(1, line.calls // FIRST_CALLS)
                line.next_call = line.calls - 1 + (apart if loss.input.is_cpu else max(apart, ON_DEVICE))
                if _is_comparison(loss.input, loss.target):
                    _keep(line, line.calls, _table(loss.input), _table(loss.target))

    # -- differences that the script computes --

    def program_started(self, _: ProgramStart) -> None:
        self._differences.clear()

    def program_ended(self, _: ProgramStart) -> None:
        self._differences.clear()

    def operation_ended(self, call: OperationCall) -> None:
        made = call.output
        if not isinstance(made, Tensor) or not made.requires_grad or self.bus.call is not None:
            return
        if call.name in DIFFERENCES and len(call.args) >= 2 and len(self._differences) < MOST_LINES:
            one, other = call.args[:2]
            if isinstance(one, Tensor) and isinstance(other, Tensor) and one.requires_grad != other.requires_grad:
                pair = (one, other) if one.requires_grad else (other, one)
                if _is_comparison(*pair):
                    self._differences[id(made)] = (weakref.ref(made), _table(pair[0]), _table(pair[1]), call.place)
            return
        distance = call.name in _DISTANCES or (call.name in PRODUCTS and _is_square(call.args))
        known = self._differences.get(id(call.args[0])) if distance and call.args else None
        if known is not None and known[0]() is call.args[0]:
            line = self._line(known[3], "difference")
            if line is not None:
                line.calls = self.bus.step
                _keep(line, self.bus.step, known[1], known[2])

    # -- both --

    def _line(self, place: Place | None, function: str) -> _Line | None:
        if place not in self._lines and len(self._lines) < MOST_LINES:
            self._lines[place] = _Line(function)
        line = self._lines.get(place)
        return line if line is not None and line.function == function else None

    def run_ended(self, end: RunEnd) -> None:
        for place, line in self._lines.items():
            if line.first is None:
                continue
            samples = [sample for sample in line.latest if 2 * sample[0] > line.latest[-1][0]][-KEPT // 2 :]
            if len({p.shape[1] for _, p, _ in (*samples, line.first)}) > 1:
                continue
            columns = _columns(line.first, samples)
            self.emit(
                PredictionsFitted,
                place,
                line.function,
                line.calls,
                samples[-1][0],
                sum(len(p) for _, p, _ in samples),
                line.known / max(1, line.later),
                columns,
            )


def _is_comparison(prediction: Tensor, target: Tensor) -> bool:
    if prediction.shape != target.shape or not is_plain(target) or not is_plain(prediction) or not target.ndim:
        return False
    return is_readable(prediction) and is_readable(target) and target.is_floating_point()


def _keep(line: _Line, call: int, prediction: Tensor, target: Tensor) -> None:
    sample = (call, prediction, target)
    if line.first is None:
        line.first = sample
    line.latest.append(sample)
    values = target[:, 0].tolist()
    if len(line.latest) > 1:
        line.later += len(values)
        line.known += sum(value in line.targets for value in values)
    if len(line.targets) < MOST_TARGETS:
        line.targets.update(values)


def _columns(first: _Sample, samples: list[_Sample]) -> tuple[FittedColumn, ...]:
    predictions, targets = torch.cat([p for _, p, _ in samples]), torch.cat([t for _, _, t in samples])
    if not bool(predictions.isfinite().all() and targets.isfinite().all()):
        return ()
    return tuple(
        fitted_column(index, predictions[:, index], targets[:, index], first[1][:, index], first[2][:, index])
        for index in range(predictions.shape[1])
    )


def _table(tensor: Tensor) -> Tensor:
    """[rows, columns], a sample."""
    plain = tensor.detach()
    columns = plain.shape[1] if plain.ndim == 2 and plain.shape[1] <= COLUMNS else 1
    return evenly_spaced(plain.reshape(-1, columns), ROWS).double().cpu().clone()


def _is_square(args: tuple[Any, ...]) -> bool:
    return len(args) >= 2 and args[0] is args[1]
