"""Scores of a teacher beside the labels of the same rows: two losses on the same outputs, in one step."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import Place, SoftTargetsCompared
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, RunEnd

__all__ = ["SoftTargetsObserver"]

FIRST: Final = 16  # steps of a line that are read
EVERY: Final = 8  # later ones
MOST_ROWS: Final = 8192
ON_DEVICE: Final = 6
CLASSES: Final = (3, 200)  # fewest and most
SAME: Final = 1e-4  # distance of standardized rows: rounding
SURE: Final = 1.5  # largest share of a row, over an equal share
_SCORES: Final = ("kl_div", "cross_entropy", "mse_loss")


@dataclass(slots=True)
class _Seen:
    place: Place | None
    table: Tensor  # rows by label and by the class with the highest score
    steps: int = 0
    rows: int = 0
    live: bool = False  # a second model, or a second call, gave such scores in the same step
    vague: int = 0  # rows without a class that stands out


class SoftTargetsObserver(Observer):
    emits = (SoftTargetsCompared,)

    def prepare(self) -> None:
        self._seen: dict[Place | None, _Seen] = {}
        self._calls: dict[Place | None, int] = {}
        self._labels: tuple[int, Tensor, Tensor] | None = None  # step, outputs, labels
        self._scores: tuple[int, Tensor, Tensor, Place | None] | None = None  # the same of scores

        self._outputs: tuple[int, list[tuple[int, ...]]] = (-1, [])  # step, and shapes of what models returned in it

    def module_call_ended(self, call: ModuleCall) -> None:
        if self.objects.model(call.module) is not None or not call.grad:
            step, shapes = self._outputs if self._outputs[0] == self.bus.step else (self.bus.step, [])
            self._outputs = step, [*shapes[-7:], *(tuple(t.shape) for t in tensors_in(call.output, 2))]

    def loss_called(self, loss: LossCall) -> None:
        target, given = loss.target, loss.input
        if self._calls.get(loss.place, 0) >= FIRST and self.bus.step % EVERY:
            return
        if not loss.output.requires_grad or not (is_plain(target) and is_plain(given) and is_readable(given)):
            return
        if given.ndim != 2 or not CLASSES[0] <= given.shape[1] <= CLASSES[1] or len(target) != len(given):
            return
        soft = target.is_floating_point() and target.shape == given.shape and loss.function in _SCORES
        hard = not target.is_floating_point() and target.ndim == 1 and loss.function in CLASS_LOSSES
        if not (soft or hard) or not is_readable(target) or target.requires_grad:
            return
        number = self._calls[loss.place] = self._calls.get(loss.place, 0) + 1
        if (number > FIRST and self.bus.step % EVERY) or (not given.is_cpu and number > ON_DEVICE):
            return
        outputs = given.detach().float().cpu().clone()
        if hard:
            self._labels = (self.bus.step, outputs, target.cpu().clone())
        else:
            self._scores = (self.bus.step, outputs, target.detach().float().cpu().clone(), loss.place)
        self._join()

    def _join(self) -> None:
        if self._labels is None or self._scores is None or self._labels[0] != self._scores[0]:
            return
        (_, outputs, labels), (_, others, scores, place) = self._labels, self._scores
        self._labels = self._scores = None
        if outputs.shape[1] != others.shape[1]:
            return
        if len(outputs) < len(others):
            scores = scores[rows] if (rows := _rows_among(outputs, others)) is not None else scores[:0]
        elif len(outputs) > len(others) or not torch.equal(outputs.argmax(1), others.argmax(1)):
            return  # outputs for other rows
        if not len(scores):
            return
        width = scores.shape[1]
        if int(labels.min()) < 0 or int(labels.max()) >= width:
            return
        seen = self._seen.setdefault(place, _Seen(place, torch.zeros(width, width, dtype=torch.float32)))
        if seen.table.shape[0] != width or seen.rows >= MOST_ROWS:
            return
        sums = scores.sum(1)
        shares = scores if bool(((sums - 1).abs() < 0.01).all() and (scores >= 0).all()) else scores.softmax(1)
        seen.vague += int((shares.amax(1) < SURE / width).sum())
        seen.table.index_put_((labels, scores.argmax(1)), torch.ones(len(labels), dtype=torch.float32), accumulate=True)
        seen.live |= self._outputs[1].count(tuple(scores.shape)) > 1
        seen.steps += 1
        seen.rows += len(labels)

    def run_ended(self, end: RunEnd) -> None:
        for seen in self._seen.values():
            table = seen.table
            best = table.argmax(1)
            labels = [label for label in range(len(table)) if float(table[label].sum()) > 0]
            to = {label: int(best[label]) for label in labels}
            moved = tuple((label, other) for label, other in to.items() if label != other)
            one_to_one = len(set(to.values())) == len(to)
            self.emit(
                SoftTargetsCompared, seen.place, seen.rows, seen.steps, seen.vague / max(1, seen.rows), len(labels),
                agree=float(table.diagonal().sum()) / max(1, seen.rows),
                chance=float((table.sum(0) * table.sum(1)).sum()) / max(1, seen.rows) ** 2,
                renamed=sum(float(table[label, other]) for label, other in to.items()) / max(1, seen.rows),
                codes=moved if one_to_one else (),
                live=seen.live,
            )  # fmt: skip


def _rows_among(outputs: Tensor, others: Tensor) -> Tensor | None:
    """Where each row of outputs is among others, which may be divided by a temperature or normalized: only some rows
    have a label. None if a row is not there, or more than once."""
    one, other = (_standardized(rows) for rows in (outputs, others))
    near = torch.cdist(one, other) < SAME
    return near.int().argmax(1) if bool((near.sum(1) == 1).all()) else None


def _standardized(rows: Tensor) -> Tensor:
    rows = rows.double() - rows.double().mean(1, keepdim=True)
    return nn.functional.normalize(rows, dim=1)
