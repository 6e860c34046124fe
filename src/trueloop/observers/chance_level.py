"""Losses against chance: the loss of the best constant answer on the same targets.

On one call in sixteen the loss and a summary of its targets are read: class counts, or sums of the values. Only numbers
are kept.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

import torch
from torch import Tensor

from trueloop.event import LossAgainstChance, Place
from trueloop.event.operation_names import BINARY_LOSSES, CLASS_LOSSES
from trueloop.measure.tensors import evenly_spaced, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, LossCall, RunEnd
from trueloop.taps.graph import through_factors
from trueloop.taps.graph_notes import LOOKED, read_note, write_note

__all__ = ["ChanceLevelObserver"]

EVERY: Final = 16  # calls of a line between two samples
EVERY_ON_DEVICE: Final = 64  # the same on a device, where a read makes the host wait
KEPT: Final = 128  # samples kept per line; beyond that, every second one is dropped
NUMBERS: Final = 1 << 16  # targets of one call that are read, evenly spaced
COLUMNS: Final = 64  # columns with a mean of their own; more columns share one mean, which is easier to beat
CLASSES: Final = 1000  # classes that are counted; with more (words) a run shows too few of each

_OTHER_CHANCE: Final = ("weight", "pos_weight", "label_smoothing", "size_average", "reduce")
"""Options that change the loss of a constant answer."""


@dataclass(slots=True)
class _Look:
    """One call."""

    loss: float
    size: int
    counts: Counter[int] = field(default_factory=Counter)  # samples per class
    sums: tuple[float, ...] = ()  # sum of each target column
    squares: tuple[float, ...] = ()  # sum of squares of each target column

    @property
    def one_sided(self) -> bool:
        """All of one class, or each sample its own class."""
        classes = len(self.counts)
        return classes == 1 or (0 < classes == self.size and max(self.counts) == self.size - 1)


class _Site:
    """A line that computes losses."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.calls = 0
        self.fit = True  # the chance level is known for each call so far
        self.looks: list[_Look] = []
        self._apart = 1
        self._seen = 0

    def add(self, look: _Look) -> None:
        if self._seen % self._apart == 0:
            self.looks.append(look)
            if len(self.looks) > KEPT:
                self.looks = self.looks[::2]
                self._apart *= 2
        self._seen += 1


class ChanceLevelObserver(Observer):
    emits = (LossAgainstChance,)

    def prepare(self) -> None:
        self._sites: dict[Place | None, _Site] = {}
        self._waiting: tuple[_Site, _Look] | None = None  # a sample whose backward has not come

    def loss_called(self, loss: LossCall) -> None:
        if not loss.output.requires_grad:
            return
        site = self._sites.get(loss.place)
        if site is None:
            site = self._sites[loss.place] = _Site(loss.function)
        call = site.calls
        site.calls = call + 1
        if call % EVERY or not site.fit or (call % EVERY_ON_DEVICE and not loss.output.is_cpu):
            return
        look = _look_at(loss) if site.function == loss.function else None
        site.fit = look is not None
        if look is not None:
            self._waiting = (site, look)
            write_note(loss.output, LOOKED, look)

    def backward_started(self, call: BackwardCall) -> None:
        """Only a loss that is the whole objective counts: a term of a sum may stay where it is."""
        if self._waiting is None:
            return
        (site, look), self._waiting = self._waiting, None
        loss = call.tensors[0] if len(call.tensors) == 1 else None
        if isinstance(loss, Tensor) and any(read_note(node, LOOKED) is look for node in through_factors(loss)):
            site.add(look)

    def run_ended(self, end: RunEnd) -> None:
        for place, site in self._sites.items():
            looks = site.looks if site.fit and len(site.looks) >= 4 else []
            quarter = len(looks) // 4
            chance = _chance_of_classes if any(look.counts for look in looks) else _chance_of_numbers
            first, third, last = looks[:quarter], looks[2 * quarter : 3 * quarter], looks[len(looks) - quarter :]
            self.emit(
                LossAgainstChance,
                place,
                function=site.function,
                calls=site.calls,
                sampled_calls=len(looks),
                targets=sum(look.size for look in looks),
                classes=len(set().union(*(look.counts for look in looks))),
                one_sided=sum(look.one_sided for look in looks),
                first=_mean_loss(first),
                third=_mean_loss(third),
                last=_mean_loss(last),
                third_chance=chance(looks, third),
                chance=chance(looks, last),
            )


# -- one call --


def _look_at(loss: LossCall) -> _Look | None:
    """None where the chance level is unknown."""
    target, options = loss.target.detach(), loss.options
    mean = loss.output.numel() == 1 and options.get("reduction", "mean") == "mean"
    if not mean or type(target) is not Tensor or not is_readable(target) or loss.target.requires_grad:
        return None
    others = [options.get(name) for name in _OTHER_CHANCE]
    if any(isinstance(other, Tensor) or other not in (None, 0, 0.0) for other in others):
        return None
    with torch.no_grad():
        value = loss.output.item()
        if not isinstance(value, float) or not math.isfinite(value):
            return None
        if loss.function in CLASS_LOSSES:
            return _of_classes(value, target, options.get("ignore_index", -100))
        if loss.function in BINARY_LOSSES:
            return _of_classes(value, target, None) if target.is_floating_point() else None
        return _of_numbers(value, target) if loss.function == "mse_loss" and loss.input.shape == target.shape else None


def _of_classes(loss: float, target: Tensor, ignored: int | None) -> _Look | None:
    """Integers, each a class; with two classes also floats."""
    values = evenly_spaced(target.flatten(), NUMBERS).cpu()
    if target.is_floating_point():
        if ignored is not None or not bool(((values == 0) | (values == 1)).all()):
            return None  # soft targets
        values = values.long()
    if ignored is not None:
        values = values[values != ignored]
    if values.numel() == 0 or int(values.min()) < 0 or int(values.max()) >= CLASSES:
        return None
    counts: list[int] = torch.bincount(values).tolist()
    return _Look(loss, values.numel(), Counter({number: count for number, count in enumerate(counts) if count}))


def _of_numbers(loss: float, target: Tensor) -> _Look | None:
    if not target.is_floating_point():
        return None
    columns = target.shape[1] if target.dim() == 2 and target.shape[1] <= COLUMNS else 1
    table = target.reshape(-1, columns)
    table = evenly_spaced(table, NUMBERS).double()
    sums, squares = torch.stack([table.sum(0), table.square().sum(0)]).tolist()
    return _Look(loss, table.shape[0], sums=tuple(sums), squares=tuple(squares))


# -- all calls --


def _mean_loss(looks: Sequence[_Look]) -> float:
    return fmean(look.loss for look in looks) if looks else 0.0


def _chance_of_classes(looks: Sequence[_Look], last: Sequence[_Look]) -> float:
    """Mean loss of the last samples under the class frequencies of all samples."""
    total: Counter[int] = Counter()
    for look in looks:
        total.update(look.counts)
    size = total.total()
    costs = {number: -math.log(count / size) for number, count in total.items()}
    return fmean(sum(costs[number] * count for number, count in look.counts.items()) / look.size for look in last)


def _chance_of_numbers(looks: Sequence[_Look], last: Sequence[_Look]) -> float:
    """Mean squared distance of the last targets from the mean of all samples."""
    columns = len(looks[0].sums) if looks else 0
    if not columns or any(len(look.sums) != columns for look in looks):
        return 0.0
    size = sum(look.size for look in looks)
    means = [math.fsum(look.sums[column] for look in looks) / size for column in range(columns)]
    return fmean(
        fmean(
            (square - 2 * mean * total + look.size * mean * mean) / look.size
            for total, square, mean in zip(look.sums, look.squares, means, strict=True)
        )
        for look in last
    )
