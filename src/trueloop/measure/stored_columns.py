"""The numbers that a dataset object holds for each of its samples, in its own order; no sample is read through it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset

from trueloop.measure.tensors import is_plain, is_readable

__all__ = ["stored_columns"]

MOST: Final = 24  # columns
FIELDS: Final = 8  # of the items of a list
DEEP: Final = 3  # subsets of subsets


def stored_columns(dataset: object, rows: int) -> list[Tensor]:
    """Columns of `rows` numbers: attributes of the dataset, fields of the items of a list."""
    if isinstance(dataset, Subset):
        return _of_subset(dataset, rows)
    values = dataset if isinstance(dataset, (list, tuple)) else list(getattr(dataset, "__dict__", {}).values())
    found = list(_of_items(values, rows)) if len(values) == rows else []
    for value in () if found else values[: 4 * MOST]:
        parts = value if isinstance(value, (list, tuple)) and len(value) != rows else [value]
        parts = list(value.values()) if isinstance(value, Mapping) else parts
        for part in parts[:MOST]:
            found += [column] if (column := _column(part, rows)) is not None else []
    return found[:MOST]


def _of_subset(dataset: Subset[Any], rows: int) -> list[Tensor]:
    index = dataset
    chosen: Any = None
    for _ in range(DEEP):
        if not isinstance(index, Subset):
            break
        inner = np.asarray(index.indices)
        if inner.ndim != 1 or not np.issubdtype(inner.dtype, np.integer):
            return []
        chosen = inner if chosen is None else inner[chosen]
        index = index.dataset  # type: ignore[assignment]
    if isinstance(index, Subset) or not hasattr(index, "__len__") or len(chosen) != rows:
        return []
    whole = len(index)
    return [column[torch.as_tensor(chosen.tolist())] for column in stored_columns(index, whole) if len(column) == whole]


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
        if all(isinstance(number, (int, float, np.number)) for number in numbers):
            yield torch.tensor([float(number) for number in numbers], dtype=torch.float64)


def _column(value: Any, rows: int) -> Tensor | None:
    if is_plain(value):
        fit = value.shape in ((rows,), (rows, 1)) and value.is_cpu and is_readable(value)
        return value.detach().double().reshape(-1) if fit else None
    if isinstance(value, (list, tuple)) and len(value) == rows:
        if not all(isinstance(number, (int, float, np.number)) for number in value):
            return None
        return torch.tensor([float(number) for number in value], dtype=torch.float64)
    held = getattr(value, "to_numpy", lambda: value)() if getattr(value, "shape", None) == (rows,) else value
    if not isinstance(held, np.ndarray) or held.shape not in ((rows,), (rows, 1)) or held.dtype.kind not in "biuf":
        return None
    return torch.from_numpy(held.astype(np.float64).reshape(-1))
