"""Series of numbers in a user's variables: one number, or one row, for each time step of an episode."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from trueloop.measure.tensors import is_plain, is_readable

__all__ = ["numbers_of", "series_in"]

MOST: Final = 256  # variables and attributes that are looked at
_PLAIN: Final = (int, float, bool, np.number, np.bool_)


def series_in(variables: Mapping[str, Any], shape: tuple[int, ...]) -> Iterator[Any]:
    """Lists, arrays and tensors with as many steps as one of these sizes: variables, attributes of objects, entries of
    dicts, and columns of a list of tuples or dicts."""
    looked = 0
    for value in list(variables.values()):
        for one in (value, *_inside(value)):
            looked += 1
            if looked > MOST:
                return
            yield from _columns(one, shape)


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from list(value.values())[:64]
    elif not isinstance(value, (type, Tensor, np.ndarray)):
        held = getattr(value, "__dict__", None)
        yield from list(held.values())[:64] if isinstance(held, dict) else ()


def _columns(value: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    if isinstance(value, (Tensor, np.ndarray)):
        if value.ndim >= 1 and len(value) in shape:
            yield value
        return
    if not isinstance(value, (list, tuple, deque)) or not value:
        return
    fits = any(size % len(value) == 0 for size in shape) and len(value) > 1
    if not fits:
        return
    first = value[0]
    if isinstance(first, tuple) and all(isinstance(row, tuple) and len(row) == len(first) for row in value):
        yield from ([row[i] for row in value] for i in range(min(len(first), 12)))
    elif isinstance(first, dict) and all(isinstance(row, dict) and row.keys() == first.keys() for row in value):
        yield from ([row[key] for row in value] for key in list(first)[:12])
    else:
        yield value


@torch.no_grad()
def numbers_of(series: Any, most: int) -> Tensor | None:
    """A copy of a series as numbers; None: it is something else, or longer."""
    if isinstance(series, np.ndarray):
        numeric = series.dtype.kind in "fiub" and series.size <= most
        return torch.from_numpy(series.astype(np.float64)) if numeric else None
    if isinstance(series, Tensor):
        return series.detach().double().clone() if _is_read(series, most) else None
    items = list(series)
    if all(isinstance(item, _PLAIN) for item in items):
        return torch.tensor([float(item) for item in items], dtype=torch.float64) if len(items) <= most else None
    if isinstance(items[0], np.ndarray):
        alike = all(isinstance(item, np.ndarray) and item.shape == items[0].shape for item in items)
        return numbers_of(np.stack(items), most) if alike and items[0].size * len(items) <= most else None
    if isinstance(items[0], Tensor):
        alike = all(isinstance(item, Tensor) and item.shape == items[0].shape for item in items)
        small = alike and all(_is_read(item, most // len(items)) for item in items)
        return torch.stack([item.detach().double() for item in items]) if small else None
    return None


def _is_read(tensor: Tensor, most: int) -> bool:
    return is_plain(tensor) and is_readable(tensor) and tensor.is_cpu and tensor.numel() <= most
