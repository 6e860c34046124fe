"""Does a collate function keep each input with its label? A batch of it, beside the batches of each item alone."""

from typing import Any, Final, NamedTuple

import numpy
import torch
from numpy.typing import NDArray

from trueloop.measure.tensors import is_plain, is_readable, tensors_in

__all__ = ["Separated", "separated"]

LEAST_ROWS: Final = 8
MOST_TENSORS: Final = 8

Numbers = NDArray[Any]


class Separated(NamedTuple):
    rows: int
    moved: int  # rows whose input stands at a different place of the batch than its item did
    wrong: int  # rows with a label that is not that of their input


def separated(batch: Any, alone: list[Any]) -> Separated | None:
    """Rows that were sorted while their labels were not. None: they belong together, or it cannot be seen."""
    count = len(alone)
    together, singles = _arrays(batch), [_arrays(each) for each in alone]
    if count < LEAST_ROWS or any(len(single) != len(together) for single in singles):
        return None
    found = [_holds(tensor, [single[n] for single in singles]) for n, tensor in enumerate(together)]
    known = [held for held in found if held is not None]
    own = numpy.arange(count)
    orders = [held.argmax(1) for held in known if (held.sum(0) == 1).all() and (held.sum(1) == 1).all()]
    moved = [order for order in orders if (order != own).any()]
    if not moved or any((order != moved[0]).any() for order in moved):
        return None
    order = moved[0]
    if any(_equals(tensor, each) for tensor in together for each in (order, numpy.argsort(order))):
        return None  # the batch says how to put its rows back
    for held in known:
        if held[own, own].all() and not held[own, order].all():
            return Separated(count, int((order != own).sum()), int((~held[own, order]).sum()))
    return None


def _arrays(batch: Any) -> list[Numbers]:
    tensors = [t for t in tensors_in(batch, MOST_TENSORS) if t.ndim and is_plain(t) and is_readable(t)]
    return [t.detach().cpu().numpy() for t in tensors if t.dtype is not torch.bfloat16]


def _holds(tensor: Numbers, singles: list[Numbers]) -> NDArray[numpy.bool_] | None:
    """Which row of the batch holds the content of which item, padded or not; None if some row holds none."""
    count = len(singles)
    for axis in (0, 1):  # samples first, or time
        if tensor.ndim <= axis or tensor.shape[axis] != count or any(single.ndim != tensor.ndim for single in singles):
            continue
        if any(single.shape[axis] != 1 for single in singles):
            continue
        rows = tensor.swapaxes(0, axis).reshape(count, -1)
        contents = [numpy.ravel(single.swapaxes(0, axis)) for single in singles]
        held = numpy.stack([_begins(rows, content) for content in contents], axis=1)
        if held.any(1).all():
            return held
    return None


def _begins(rows: Numbers, content: Numbers) -> NDArray[numpy.bool_]:
    """Which rows begin with the content, and hold one value after it."""
    size = content.size
    if size > rows.shape[1]:
        return numpy.zeros(len(rows), dtype=bool)
    same: NDArray[numpy.bool_] = (rows[:, :size] == content).all(1)
    rest = rows[:, size:]
    return same & (rest == rest[:, :1]).all(1) if rest.shape[1] else same


def _equals(tensor: Numbers, values: NDArray[Any]) -> bool:
    return tensor.size == len(values) and bool((tensor.ravel() == values.astype(tensor.dtype)).all())
