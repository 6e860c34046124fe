"""Series of numbers in a user's variables: one number, or one row, for each time step of an episode."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from trueloop.measure.tensors import is_plain, is_readable

__all__ = ["flags_in", "numbers_of", "row_marks", "series_in"]

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


@torch.no_grad()
def row_marks(inputs: Tensor) -> list[float]:
    """A number for each row, the same for the same row."""
    plain = inputs.detach().double()
    rows = plain.reshape(-1, inputs.shape[-1]) if inputs.ndim else plain.reshape(1, 1)
    weights = torch.arange(1, rows.shape[1] + 1, dtype=torch.float64).sqrt()
    marks: list[float] = (rows * weights).sum(1).tolist()
    return marks


def flags_in(variables: Mapping[str, Any], rows: int) -> Iterator[tuple[str, Tensor]]:
    """Tensors of 0 and 1, both of them, one for each row, with their names: variables, attributes, entries of dicts and
    of short tuples."""
    for name, value in list(variables.items())[:MOST]:
        named = [(name, value)]
        if isinstance(value, dict):
            named += [(str(key), one) for key, one in list(value.items())[:16]]
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            named += list(zip(value._fields, value, strict=True))
        elif isinstance(value, (tuple, list)) and len(value) <= 12:
            named += [(name, one) for one in value]
        elif hasattr(value, "__dict__") and not isinstance(value, (type, Tensor)):
            named += [(str(key), one) for key, one in list(vars(value).items())[:32]]
        for words, one in named:
            if isinstance(one, Tensor) and _is_flag(one, rows):
                yield words, one


@torch.no_grad()
def _is_flag(tensor: Tensor, rows: int) -> bool:
    if not _is_read(tensor, rows) or tensor.numel() != rows or tensor.requires_grad:
        return False
    if not (tensor.dtype is torch.bool or tensor.is_floating_point()):
        return False
    numbers = tensor.detach().double().reshape(-1)
    ones = numbers == 1
    return bool(ones.any()) and bool((numbers == 0).any()) and bool((ones | (numbers == 0)).all())
