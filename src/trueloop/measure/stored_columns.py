"""The numbers that a dataset object holds for each of its samples, in its own order; no sample is read through it."""

from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset

from trueloop.measure.tensors import is_plain, is_readable

__all__ = ["stored_columns"]

MOST: Final = 24  # columns
FIELDS: Final = 8  # of the items of a list


def stored_columns(dataset: object, rows: int) -> list[Tensor]:
    """Columns of `rows` numbers: attributes of the dataset, fields of the items of a list."""
    if isinstance(dataset, Subset):
        return _of_subset(dataset, rows)
    values = dataset if isinstance(dataset, (list, tuple)) else list(getattr(dataset, "__dict__", {}).values())
    found = list(_of_items(values, rows)) if len(values) == rows else []
    for value in () if found else values[: 4 * MOST]:
        for part in islice(_parts(value, rows), MOST):
            found += [column] if (column := _column(part, rows)) is not None else []
    return found[:MOST]


def _of_subset(dataset: Subset[Any], rows: int) -> list[Tensor]:
    chosen, inner = np.asarray(dataset.indices), dataset.dataset
    numbers = chosen.ndim == 1 and chosen.dtype.kind in "iu" and len(chosen) == rows > 0
    if not numbers or not isinstance(inner, Sized) or int(chosen.max()) >= len(inner) or int(chosen.min()) < 0:
        return []
    index = torch.from_numpy(chosen.astype(np.int64))
    return [column[index] for column in stored_columns(inner, len(inner))]


def _parts(value: Any, rows: int) -> Iterator[Any]:
    """The value, or what it consists of: tensors of a list or mapping, columns of a table."""
    if type(value) is dict:  # a mapping of the user's runs code of the user's
        yield from value.values()
    elif isinstance(value, (list, tuple)) and len(value) != rows:
        yield from value
    elif _is_pandas(value, "DataFrame"):
        yield from (value[name] for name in value.columns)
    else:
        yield value


def _of_items(items: Any, rows: int) -> Iterator[Tensor]:
    """Columns of a list of tuples or of mappings."""
    first = items[0] if rows else None
    if not isinstance(first, (tuple, list, Mapping)) or any(type(item) is not type(first) for item in items):
        return
    keys = list(first) if isinstance(first, Mapping) else list(range(len(first)))
    for key in keys[:FIELDS]:
        try:
            numbers = [item[key] for item in items]
        except (KeyError, IndexError):
            continue
        numbers = [number.item() if is_plain(number) and number.numel() == 1 else number for number in numbers]
        if (column := _numbers(numbers)) is not None:
            yield column


def _column(value: Any, rows: int) -> Tensor | None:
    if is_plain(value):
        fit = value.shape in ((rows,), (rows, 1)) and value.is_cpu and is_readable(value)
        return value.detach().double().reshape(-1) if fit else None
    if isinstance(value, (list, tuple)) and len(value) == rows:
        return _numbers(value)
    held = value.to_numpy() if _is_pandas(value, "Series") else value
    if not isinstance(held, np.ndarray) or held.shape not in ((rows,), (rows, 1)) or held.dtype.kind not in "biuf":
        return None
    return torch.from_numpy(held.astype(np.float64).reshape(-1))


def _numbers(values: Sequence[Any]) -> Tensor | None:
    """None: something is not a number, or too large for one."""
    if not all(isinstance(value, (int, float, np.integer, np.floating)) for value in values):
        return None
    try:
        return torch.tensor([float(value) for value in values], dtype=torch.float64)
    except OverflowError:
        return None


def _is_pandas(value: Any, kind: str) -> bool:
    """By its type alone: reading an attribute of an object of the user's may run code of the user's."""
    return type(value).__name__ == kind and type(value).__module__.partition(".")[0] == "pandas"
