"""Finds the operation in which samples of a batch mix, or in which later time steps become visible.

A run of a replay copy is recorded, operation by operation, and compared with runs on other inputs. An element that
changes when one sample is replaced, and also when the others are, is a mixture; the first operation with one is the
cause.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trueloop.event import Place
from trueloop.event.operation_names import CONVOLUTIONS
from trueloop.taps.calls import tensors_in
from trueloop.taps.place import is_users, place_in
from trueloop.taps.replay_copy import Inputs, ReplayCopy, Trace

__all__ = ["MixingPoint", "Summaries", "changed", "find_future_leak", "find_sample_mixing"]

RECORDED: Final = 128 * 2**20  # Limit for intermediate values of one comparison, in bytes
SAME: Final = 1e-5  # Relative to the largest value: a smaller difference is rounding
ONE: Final = 1e-3  # A sum that is no farther from 1 than this is 1: `/ (total + 1e-8)`
SHARED: Final = 0.5  # Of the columns sum to 1; others are masked in all samples
_REARRANGING: Final = frozenset(
    {"view", "reshape", "flatten", "unflatten", "transpose", "permute", "swapaxes", "movedim", "t", "flip", "roll",
    "view_as", "resize"}
)  # fmt: skip
"""Operations that only rearrange values."""

_LENGTHENING: Final = frozenset({"pad", "cat", "concat", "conv1d"})


class MixingPoint(NamedTuple):
    """The operation in which values mix."""

    operation: str
    layer: str
    place: Place | None  # The user's line inside the model, or None
    shape: tuple[int, ...]  # Of the output
    given: tuple[int, ...]  # Shape of the first input tensor
    over_first: bool  # A softmax over dimension 0, or values that sum to 1 over it
    inside: bool = False  # A convolution ran along the rows of the input: these have positions


@dataclass(slots=True)
class _Step:
    point: MixingPoint
    made: Tensor


class Recording(Trace):
    """Every operation of a run, with a copy of its output."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[_Step] = []
        self._bytes_left = RECORDED

    def operation(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        made = next(tensors_in(output), None)
        if made is None or self._bytes_left <= 0:
            return
        self._bytes_left -= made.numel() * made.element_size()
        first = next(tensors_in((args, kwargs)), made)
        over_first = _is_over_first(name, args, kwargs, made)
        point = MixingPoint(name, self.layer, _line(), tuple(made.shape), tuple(first.shape), over_first)
        self.steps.append(_Step(point, made.detach().clone()))


class Comparison(Trace):
    """A run with other inputs: the elements that changed, for each recorded operation."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording
        self.masks: list[Tensor] = []
        self._aligned = True

    def operation(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        made = next(tensors_in(output), None)
        if made is None or not self._aligned or len(self.masks) >= len(self._recording.steps):
            return
        step = self._recording.steps[len(self.masks)]
        self._aligned = step.point.operation == name and step.made.shape == made.shape
        if self._aligned:  # a forward that branches on values can only be compared up to the branch
            self.masks.append(changed(step.made, made))


class Summaries(Trace):
    """Records every value without a time dimension; a second run replaces its own by them."""

    def __init__(self, with_time: set[int], before: list[list[Tensor]] | None = None) -> None:
        super().__init__()
        self._with_time = with_time
        self._before = before
        self._made: list[list[Tensor]] = []
        self._count = 0

    def put_back(self) -> Summaries:
        return Summaries(self._with_time, self._made)

    def operation(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        floats = [t for t in tensors_in(output, limit=8) if t.is_floating_point()]
        if floats and name in _LENGTHENING:
            self._lengthen(next(tensors_in((args, kwargs))), floats[0])
        found = [t for t in floats if self._with_time.isdisjoint(t.shape)]
        if self._before is None:
            self._made.append([t.detach().clone() for t in found])
        elif self._count < len(self._before):
            for now, before in zip(found, self._before[self._count], strict=False):
                if now.shape == before.shape and not torch.equal(now, before):
                    now.copy_(before)
        self._count += 1

    def _lengthen(self, given: Tensor, made: Tensor) -> None:
        """A padded sequence still has a time dimension."""
        if given.dim() == made.dim():
            sizes = list(zip(given.shape, made.shape, strict=True))[1:]
            self._with_time |= {after for before, after in sizes if before in self._with_time and after > before}


def changed(before: Tensor, after: Tensor) -> Tensor:
    """Which elements differ by more than rounding."""
    if not before.is_floating_point():
        return before != after
    finite = before[torch.isfinite(before)]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    differs = (after - before).abs() > SAME * max(scale, 1e-30)
    return differs | (torch.isfinite(before) != torch.isfinite(after))


def find_sample_mixing(
    replay: ReplayCopy, plain: Inputs, others: Inputs, own: Inputs, kept: int, samples: int
) -> MixingPoint | None:
    """Inputs of three runs: the original, with the other samples replaced, with the kept sample replaced."""
    recording = Recording()
    replay.run(plain, recording)
    by_others, by_own = Comparison(recording), Comparison(recording)
    replay.run(others, by_others)
    replay.run(own, by_own)
    inside = any(_runs_along_rows(step, samples) for step in recording.steps)
    found = rearranged = None
    for step, theirs, its in zip(recording.steps, by_others.masks, by_own.masks, strict=False):
        if bool((theirs & its).any()):
            if found is None:
                found = rearranged or step.point
                square = samples in found.shape[1:]  # scores of all pairs, such as edges of a graph
                found = found._replace(inside=inside, over_first=found.over_first and not square)
            if _sums_to_one_over_first(step.made, samples):  # also a softmax that is written as several operations
                return step.point._replace(over_first=True, inside=inside)
        moved = theirs.dim() > 0 and theirs.shape[0] == samples and bool(theirs[kept].any())
        if moved and step.point.operation in _REARRANGING:
            rearranged = step.point
    return found or rearranged


def _runs_along_rows(step: _Step, samples: int) -> bool:
    """A convolution of a batch: `conv1d` of [batch, channels, positions]."""
    name, made = step.point.operation, step.made
    return name in CONVOLUTIONS and made.dim() == 2 + int(name[-2]) and made.shape[0] == samples


def _sums_to_one_over_first(made: Tensor, samples: int) -> bool:
    """Are these shares, or their logarithms, of each sample in a whole, position by position?"""
    if made.dim() < 2 or made.shape[0] != samples or samples in made.shape[1:] or not made.is_floating_point():
        return False
    shares = made.double().flatten(1)
    shares = shares.exp() if bool((shares <= 0).all()) else shares
    if shares.shape[1] < 2 or bool((shares < 0).any()) or not bool(shares.isfinite().all()):
        return False
    totals = shares.sum(0)
    whole = (totals - 1).abs() < ONE
    between = bool(((shares > ONE) & (shares < 1 - ONE)).any())
    return between and bool((whole | (totals == 0)).all()) and float(whole.double().mean()) >= SHARED


def find_future_leak(twin: ReplayCopy, plain: Inputs, later: Inputs, position: int, length: int) -> MixingPoint | None:
    """Inputs of two runs: the original, and with everything after the position replaced."""
    recording = Recording()
    twin.run(plain, recording)
    comparison = Comparison(recording)
    twin.run(later, comparison)
    for step, mask in zip(recording.steps, comparison.masks, strict=False):
        times = [dim for dim, size in enumerate(mask.shape) if size == length]
        if not times or step.point.operation in _REARRANGING:
            continue
        if len(times) > 1 and "softmax" not in step.point.operation:
            continue  # attention scores of all pairs: they are masked later
        if bool(mask.narrow(times[-2] if len(times) > 1 else times[0], 0, position + 1).any()):
            return step.point
    return None


def _line() -> Place | None:
    """The user's line that runs the operation, inside the replay copy."""
    frame = sys._getframe(2)
    while frame.f_code is not ReplayCopy.run.__code__ and frame.f_back is not None:
        if is_users(frame.f_code.co_filename):
            return place_in(frame)
        frame = frame.f_back
    return None


def _is_over_first(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Tensor) -> bool:
    if name not in ("softmax", "log_softmax", "softmin"):
        return False
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return isinstance(dim, int) and dim in (0, -made.dim())
