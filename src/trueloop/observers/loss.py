"""Calls of loss functions: what goes in, by shape, kind and value, and what stands behind it in the graph.

Values are looked at on the first calls at a place and on some later ones; all facts of one call are read from the
device at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import torch
from torch import Tensor

from trueloop.event import LossComputed, Place
from trueloop.observers.observer import Observer
from trueloop.observers.roster import Roster
from trueloop.taps.bus import Bus
from trueloop.taps.calls import LossCall, PredictionCompared
from trueloop.taps.graph import node_name, through_views
from trueloop.taps.graph_notes import ACTIVATION, read_note

__all__ = ["LossObserver"]

FIRST_CALLS: Final = 6
"""Calls at a place that are all told: a rule wants to see a thing more than once before it speaks."""
EVERY: Final = 50
"""After that, one call in so many is told,"""
EARLY: Final = 200
"""up to this call,"""
SELDOM: Final = 500
"""and then one in so many: a look costs as much as a few small steps."""
LARGEST: Final = 1 << 20
"""Numbers of a tensor whose range is taken; of larger ones, evenly spaced ones."""
SAMPLES: Final = 32
"""Samples whose rows are summed."""
POSITIONS: Final = 8
"""Positions per further dimension (pixels, tokens) whose rows are summed."""
TARGETS: Final = 1024
"""Targets that are read one by one."""
ROUNDING: Final = 1e-5
"""What the sum of a row of float32 probabilities may be off by; the precision of the tensor's own type comes on top."""
COMPARISONS: Final = 64
"""Comparisons of predictions that are looked at before one gives up: an accuracy that is ever taken shows in the first
few."""
MOST_CLASSES: Final = 1000
"""Integers above this are amounts, not classes."""
LEAST_SHARE: Final = 0.5
"""The share of an even split that the rarest number must have, for rounded predictions to be read as classes: counts
have thin tails."""
ENOUGH: Final = 20
"""Targets per class, on average, before one says how they are spread: even ones then pass LEAST_SHARE, the tail of
counts does not."""
FAR: Final = 6
"""Nodes one goes back for the softmax of inputs whose values say that there is one (`softmax(x) + 1e-8`)."""

_DISTANCES: Final = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_OVER_CLASSES: Final = ("cross_entropy", "nll_loss", "kl_div")
_CLAMPS: Final = ("ClampBackward", "HardtanhBackward")

Rows = Literal["probabilities", "log-probabilities", "scores", "unknown"]
Activation = tuple[Place | None, str]


@dataclass(slots=True)
class _Suspect:
    """A distance loss on whole numbers: are they classes?"""

    event: LossComputed
    count: int = 0
    """How many targets the latest call had."""
    latest: Tensor | None = None
    """Our own small copy of them."""
    rounded_against: Counter[float] = field(default_factory=Counter)
    """How often each number was compared with a rounded prediction."""


class LossObserver(Observer):
    emits = (LossComputed,)

    def __init__(self, bus: Bus, roster: Roster) -> None:
        super().__init__(bus, roster)
        self._calls: Counter[tuple[str, int]] = Counter()
        """By function and identity of the place: the same line is always the same object."""
        self._suspects: dict[Place | None, _Suspect] = {}
        self._looks = COMPARISONS

    def loss_called(self, loss: LossCall) -> None:
        key = (loss.function, id(loss.place))
        call = self._calls[key]
        self._calls[key] = call + 1
        if call < FIRST_CALLS or call % (EVERY if call <= EARLY else SELDOM) == 0:
            if not _readable(loss.input) or not _readable(loss.target):
                return
            with torch.no_grad():
                event = self._facts(loss, call)
            self.bus.emit(event)
            if self._looks and _may_be_classes(event):
                loss.watch_predictions = True
                self._suspects.setdefault(loss.place, _Suspect(event)).event = event
            else:
                self._suspects.pop(loss.place, None)
        if self._suspects and (suspect := self._suspects.get(loss.place)) is not None:
            suspect.count = loss.target.numel()
            suspect.latest = _thinned(loss.target.detach(), TARGETS).float().clone()

    def prediction_compared(self, comparison: PredictionCompared) -> None:
        """Is what the prediction is compared with the latest targets of a suspect?"""
        self._looks = max(0, self._looks - 1)
        for place, suspect in tuple(self._suspects.items()) if self._looks else ():
            if suspect.latest is None or suspect.count != comparison.other.numel():
                continue
            other = _thinned(comparison.other.detach(), TARGETS).float().to(suspect.latest.device)
            if not torch.equal(other, suspect.latest):
                continue
            if comparison.kind == "round":
                suspect.rounded_against.update(other.tolist())
            if comparison.kind == "argmax" or _evenly_spread(suspect.rounded_against):
                del self._suspects[place]
                self.bus.emit(replace(suspect.event, step=self.bus.step, target_used_as_class=True))

    def _facts(self, loss: LossCall, call: int) -> LossComputed:
        ignored = loss.options.get("ignore_index", -100 if loss.function in ("cross_entropy", "nll_loss") else None)
        numbers = _Numbers(loss, ignored)
        behind, activation = _behind(loss.input, far=numbers.rows == "probabilities")
        return LossComputed(
            step=self.bus.step,
            place=loss.place,
            function=loss.function,
            call=call,
            grad=loss.output.requires_grad,
            reduction=str(loss.options.get("reduction", "mean")),
            input_shape=tuple(loss.input.shape),
            target_shape=tuple(loss.target.shape),
            input_dtype=str(loss.input.dtype).removeprefix("torch."),
            target_dtype=str(loss.target.dtype).removeprefix("torch."),
            input_range=numbers.input_range,
            target_range=numbers.target_range,
            rows=numbers.rows,
            preceding=behind,
            preceding_place=activation[0],
            preceding_module=activation[1],
            target_integral=numbers.integral,
            target_distinct=numbers.distinct,
            target_rows_sum_to_one=numbers.target_rows_sum_to_one,
            target_used_as_class=False,
            ignore_index=ignored,
        )


# -- numbers --


class _Numbers:
    """All value facts of one call, from one read."""

    def __init__(self, loss: LossCall, ignored: Any) -> None:
        scores, target = loss.input.detach(), loss.target.detach()
        rows = _rows(scores, loss.function)
        alike = rows is not None and scores.shape == target.shape and target.is_floating_point()
        target_rows = _rows(target, loss.function) if alike else None
        values: list[float] = torch.cat(
            [
                torch.stack(torch.aminmax(_thinned(scores, LARGEST).float())),
                _facts_of_rows(rows, scores),
                _facts_of_rows(target_rows, scores),
                _thinned(target, TARGETS).float().to(scores.device),
            ]
        ).tolist()
        self.input_range = None if values[0] != values[0] else (values[0], values[1])
        self.rows: Rows = (
            "unknown" if rows is None or rows.shape[1] < 2 else _kind_of_rows(values[2:5], _tolerance(rows, scores))
        )
        self.target_rows_sum_to_one = None if target_rows is None else values[6] <= _tolerance(target_rows, target)
        targets = [value for value in values[8:] if value != ignored]
        self.integral = bool(targets) and all(value.is_integer() for value in targets)
        self.distinct = len(set(targets))
        self.target_range = (min(targets), max(targets)) if targets else None


def _readable(tensor: Tensor) -> bool:
    """Dense, real, with numbers in it, and not in the middle of a CUDA graph's capture, which a read would break."""
    plain = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_nested or tensor.is_complex())
    return plain and tensor.numel() > 0 and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def _thinned(tensor: Tensor, limit: int) -> Tensor:
    """At most so many of its numbers, evenly spaced."""
    flat = tensor.reshape(-1)
    return flat[:: -(-flat.numel() // limit)] if flat.numel() > limit else flat


def _rows(tensor: Tensor, function: str) -> Tensor | None:
    """Some rows over the class dimension, as a matrix; None where there are no classes."""
    if function not in _OVER_CLASSES or not tensor.dim():
        return None
    classes = tensor.dim() - 1 if function == "kl_div" or tensor.dim() == 1 else 1
    for dimension, size in enumerate(tensor.shape):
        if dimension != classes:
            tensor = tensor.narrow(dimension, 0, min(size, POSITIONS if dimension else SAMPLES))
    return tensor.movedim(classes, -1).reshape(-1, tensor.shape[classes]).float()


def _facts_of_rows(rows: Tensor | None, like: Tensor) -> Tensor:
    """Smallest value; how far the sums are from one, rows of zeros (padding) left out; how far logsumexp is from
    zero."""
    if rows is None:
        return torch.zeros(3, device=like.device)
    sums = rows.sum(1)
    off = torch.where(rows.any(1), (sums - 1).abs(), torch.zeros_like(sums))
    return torch.stack([rows.min(), off.max(), rows.logsumexp(1).abs().max()])


def _tolerance(rows: Tensor, of: Tensor) -> float:
    """How far from one the sum of a row of probabilities may lie: each is rounded to its type, the small ones to its
    smallest number."""
    kind = torch.finfo(of.dtype if of.is_floating_point() else torch.float32)
    return ROUNDING + 2 * kind.eps + rows.shape[1] * kind.smallest_normal * kind.eps


def _kind_of_rows(facts: list[float], tolerance: float) -> Rows:
    smallest, off_one, off_zero = facts
    if smallest != smallest:
        return "unknown"
    if smallest >= 0 and off_one <= tolerance:
        return "probabilities"
    return "log-probabilities" if off_zero <= 10 * tolerance else "scores"


# -- what stands behind --


def _behind(scores: Tensor, *, far: bool) -> tuple[tuple[str, ...], Activation]:
    """The names of the nodes straight behind, what a clamp clamps included, and the note on the first activation among
    them."""
    nodes = list(through_views(scores))
    if nodes and node_name(nodes[-1]).startswith(_CLAMPS):
        nodes += [
            inner
            for following, _ in nodes[-1].next_functions[:1]
            if following is not None
            for inner in through_views(following)
        ]
    names = tuple(map(node_name, nodes))
    note = next((note for node in nodes if (note := read_note(node, ACTIVATION)) is not None), None)
    if note is None and far and nodes:
        note = _note_further(nodes[-1])
    return names, note or (None, "")


def _note_further(node: Any) -> Activation | None:
    for _ in range(FAR):
        following = [inner for inner, _ in node.next_functions if inner is not None]
        if not following:
            return None
        node = following[0]
        note: Activation | None = read_note(node, ACTIVATION)
        if note is not None and "Softmax" in node_name(node):
            return note
    return None


# -- classes or amounts --


def _may_be_classes(event: LossComputed) -> bool:
    """A distance to whole numbers, from 0 or 1 on, of which there are several: worth asking what predictions are
    compared with."""
    if (
        event.function not in _DISTANCES
        or not event.target_integral
        or event.target_distinct < 2
        or event.target_range is None
    ):
        return False
    return event.target_range[0] >= 0 and event.target_range[1] < MOST_CLASSES


def _evenly_spread(numbers: Counter[float]) -> bool:
    """Every number from 0 to the largest comes often, none of them rarely: labels rather than counts or grades."""
    classes = int(max(numbers)) + 1
    even = numbers.total() / classes
    return 2 < classes == len(numbers) and even >= ENOUGH and min(numbers.values()) >= LEAST_SHARE * even
