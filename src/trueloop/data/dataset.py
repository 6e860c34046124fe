"""Any map-style dataset as a source: `dataset[i]` returns (inputs, target), or a dict that holds "labels"."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, default_collate

from trueloop.data.padding import padded
from trueloop.data.source import Batch, Source
from trueloop.data.stream import as_batch
from trueloop.errors import BadData

__all__ = ["Dataset", "collate_rows", "collate_stream", "convert_batch"]


def collate_rows(items: list[Any]) -> Any:
    """torch's default collate; in dicts, as Hugging Face datasets give them, lists of numbers become tensors first."""
    if isinstance(items[0], Mapping):
        items = [{key: _as_tensor(value) for key, value in item.items()} for item in items]
    return default_collate(items)


def collate_stream(items: list[Any]) -> Any:
    """The same for the samples of a stream, which have no index: BadData for dicts that cannot be stacked."""
    try:
        return collate_rows(items)
    except (RuntimeError, TypeError, ValueError) as error:
        pairs = [(f"sample {number} of a batch", item) for number, item in enumerate(items)]
        why = _unequal_columns(pairs) if isinstance(items[0], Mapping) else None
        if why is None:
            raise
        raise BadData(why) from error


def convert_batch(batch: Any) -> Any:
    """A ready batch, as Hugging Face's `.batch(n)` makes it: its lists of rows become tensors."""
    if not isinstance(batch, Mapping):
        return batch
    for key, rows in batch.items():
        lengths = {len(row) for row in rows if isinstance(row, list)} if isinstance(rows, list) else set()
        if len(lengths) > 1:
            some = f"rows of {min(lengths)} and of {max(lengths)} values"
            raise BadData(f"{key!r} of a batch has {some}. Pad them before `.batch()`: padding='max_length'.")
    return {key: _as_tensor(rows) for key, rows in batch.items()}


def _as_tensor(value: Any) -> Any:
    return torch.tensor(value) if isinstance(value, list) and _is_numbers(value) else value


def _is_numbers(value: list[Any]) -> bool:
    inner = value[0] if value else 0
    return _is_numbers(inner) if isinstance(inner, list) else isinstance(inner, (bool, int, float))


@final
class Dataset(Source):
    """A sequence of (inputs, target), or of dicts. `collate` makes a batch from a list of them."""

    def __init__(
        self,
        samples: Any,
        collate: Callable[[list[Any]], Any] = collate_rows,
        labels: Sequence[int] | Tensor | None = None,
        name: Callable[[int], str] = "sample {}".format,
    ) -> None:
        """`name`: how messages refer to a sample, given its index; its file, where it has one."""
        has_index = hasattr(samples, "__len__") and hasattr(samples, "__getitem__")
        if isinstance(samples, IterableDataset) or not has_index:
            if hasattr(samples, "__iter__"):
                raise BadData(
                    f"{type(samples).__name__} is read one sample after another, not by index. Nothing was trained: "
                    "return it as it is, without Dataset(...)."
                )
            raise BadData(
                f"{type(samples).__name__} has no `__len__` and `__getitem__`, so its order can be neither drawn nor "
                "resumed. Nothing was trained: give a map-style dataset, or put its samples into a list."
            )
        self.samples, self.collate, self.name = samples, collate, name
        self._labels = labels if labels is not None else getattr(samples, "targets", None)

    def __len__(self) -> int:
        return len(self.samples)

    def fetch(self, numbers: Tensor) -> Batch:
        indices = numbers.tolist()
        items = [self.samples[index] for index in indices]
        try:
            batch = self.collate(items)
        except (RuntimeError, TypeError, ValueError, AttributeError, KeyError, BadData):
            if (why := self._mistake(indices, items)) is None:
                raise
            raise BadData(why) from None
        default = self.collate in (collate_rows, default_collate)
        if isinstance(batch, Mapping):
            if default and (text := next((key for key, each in batch.items() if _is_text(each)), None)) is not None:
                raise BadData(_text_column(self.name(indices[0]), text))
            return as_batch(batch, type(self.samples).__name__)
        if not _is_pair(batch) or (default and (not _is_pair(items[0]) or any(map(_is_text, batch)))):
            what = f"`collate` returned a {type(batch).__name__} for a list of samples, not (inputs, targets)."
            raise BadData(self._mistake(indices, items) or what)
        return Batch(*batch)

    def labels(self) -> Tensor | None:
        if self._labels is None:
            return None
        for index, label in enumerate(() if isinstance(self._labels, Tensor) else self._labels):
            if isinstance(label, str):
                raise BadData(_text_target(self.name(index), label))
        return torch.as_tensor(self._labels)

    # The messages below do not say "Nothing was trained": a bad sample may appear in the middle of a run.

    def _mistake(self, indices: Iterable[int], items: list[Any]) -> str | None:
        """What is wrong with these samples; None if nothing known is, or if the user's own collate handles them."""
        collate = getattr(self.collate, "func", self.collate)  # of a partial
        if collate not in (collate_rows, default_collate, padded):
            return None
        pairs = list(zip(map(self.name, indices), items, strict=True))
        if isinstance(items[0], Mapping):
            return _unequal_columns(pairs)
        why = next((why for name, item in pairs if (why := _bad_sample(name, item)) is not None), None)
        if why is not None or collate is padded:
            return why
        return _shape_mismatch(pairs, 0, "inputs") or _shape_mismatch(pairs, 1, "targets")


def _bad_sample(name: str, item: Any) -> str | None:
    if not _is_pair(item):
        return (
            f"The dataset's {name} is {_describe(item)}, not a pair (inputs, target). Let the dataset return two "
            "things, or give a `collate` that makes (inputs, targets) from a list of samples."
        )
    if isinstance(item[1], str):
        return _text_target(name, item[1])
    if isinstance(item[0], str):
        return (
            f"The inputs of {name} are the text {item[0][:40]!r}, and models take numbers. Let the dataset return "
            "token IDs, with `collate=padded` from trueloop.data.padding where lengths differ."
        )
    if item[0] is None or item[1] is None:
        return f"The {'inputs' if item[0] is None else 'target'} of {name} is None."
    bad = next((part for part in item if not _is_numeric(part)), None)
    if bad is None:
        return None
    return (
        f"The dataset's {name} holds {_describe(bad)}, which cannot be stacked into a batch. Let the dataset return "
        "tensors or numbers, as with torch.as_tensor(...), or give a `collate` of your own."
    )


def _text_column(name: str, column: str) -> str:
    return (
        f"{column!r} of {name} is text, and models take numbers. Remove the column, as in "
        f"dataset.remove_columns({column!r}), or turn it into token IDs."
    )


def _unequal_columns(pairs: list[tuple[str, Any]]) -> str | None:
    """Two dicts that cannot be stacked."""
    first, keys = pairs[0][0], list(pairs[0][1])
    for name, item in pairs:
        if not isinstance(item, Mapping) or set(item) != set(keys):
            has = f"a dict of {', '.join(map(str, item))}" if isinstance(item, Mapping) else _describe(item)
            return f"The dataset's {first} is a dict of {', '.join(map(str, keys))}, and {name} is {has}."
        if (key := next((key for key in keys if item[key] is None), None)) is not None:
            return f"{key!r} of {name} is None, which cannot be stacked into a batch. Remove the column, or fill it."
        for key in keys:
            one, other = _shape(pairs[0][1][key]), _shape(item[key])
            if one != other:
                return (
                    f"Samples of different shapes cannot be stacked into one batch: {key!r} of {first} is {one}, of "
                    f"{name} {other}. Pad them in the tokenizer (padding='max_length'), or give "
                    "Dataset(samples, collate=...) a collator that pads."
                )
    return None


def _shape_mismatch(pairs: list[tuple[str, Any]], part: int, which: str) -> str | None:
    """Two samples that cannot be stacked: their names and shapes."""
    first, shape = pairs[0][0], _shape(pairs[0][1][part])
    for name, item in pairs:
        if (other := _shape(item[part])) != shape:
            return (
                f"Samples of different shapes cannot be stacked into one batch: the {which} of {first} are {shape}, "
                f"of {name} {other}. Use `collate=padded` from trueloop.data.padding (sequences), or resize images."
            )
    return None


def _shape(value: Any) -> list[int] | str:
    if isinstance(value, (list, tuple)):
        return [len(value)]
    if (shape := getattr(value, "shape", None)) is not None:
        return list(shape)
    return "a number" if isinstance(value, (bool, int, float)) else f"a {type(value).__name__}"


def _is_numeric(part: Any) -> bool:
    if isinstance(part, np.ndarray):
        return part.dtype.kind not in "OUS"
    return isinstance(part, (Tensor, np.number, bool, int, float, dict, list, tuple))


def _describe(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"a NumPy array of {item.dtype}"
    if isinstance(item, dict):
        return f"a dict of {', '.join(map(str, list(item)[:4]))}"
    return f"a {type(item).__name__} of {len(item)}" if isinstance(item, (tuple, list)) else f"a {type(item).__name__}"


def _is_pair(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2


def _is_text(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) > 0 and isinstance(value[0], str)


def _text_target(name: str, label: str) -> str:
    return (
        f"The target of {name} is the text {label[:40]!r}, and losses take class indices. Encode the classes "
        "as 0, 1, 2 ..., as in {name: index for index, name in enumerate(sorted(set(names)))}."
    )
