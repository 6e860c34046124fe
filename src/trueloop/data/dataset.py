"""Any map-style dataset as a source: `dataset[i]` gives (inputs, target)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, default_collate

from trueloop.data.padding import padded
from trueloop.data.source import Batch, Source
from trueloop.errors import BadData

__all__ = ["Dataset"]


@final
class Dataset(Source):
    """A list-like of (inputs, target). `collate` makes a batch of a list of them; torch's own unless told otherwise."""

    def __init__(
        self,
        samples: Any,
        collate: Callable[[list[Any]], Any] = default_collate,
        labels: Sequence[int] | Tensor | None = None,
        name: Callable[[int], str] = "sample {}".format,
    ) -> None:
        """`name`: what a sentence calls a sample, given its number; its file, where it has one."""
        if (
            isinstance(samples, IterableDataset)
            or not hasattr(samples, "__len__")
            or not hasattr(samples, "__getitem__")
        ):
            raise BadData(
                f"{type(samples).__name__} does not give its length and its samples by number ([]), so that its order could neither be "
                "drawn nor resumed. Nothing was trained: give a map-style dataset, or put its samples into a list."
            )
        self.samples, self.collate, self.name = samples, collate, name
        self._labels = labels if labels is not None else getattr(samples, "targets", None)

    def __len__(self) -> int:
        return len(self.samples)

    def fetch(self, numbers: Tensor) -> Batch:
        wanted = numbers.tolist()
        items = [self.samples[number] for number in wanted]
        try:
            made = self.collate(items)
        except (RuntimeError, TypeError, ValueError, AttributeError, BadData):
            why = self._mistake(wanted, items)
            if why is None:
                raise
            raise BadData(why) from None
        if not _is_pair(made) or (
            self.collate is default_collate and (not _is_pair(items[0]) or any(map(_texts, made)))
        ):
            what = f"The collate made a {type(made).__name__} of a list of samples, not (inputs, targets)."
            raise BadData(self._mistake(wanted, items) or what)
        return Batch(*made)

    def labels(self) -> Tensor | None:
        if self._labels is None:
            return None
        for number, label in enumerate(() if isinstance(self._labels, Tensor) else self._labels):
            if isinstance(label, str):
                raise BadData(_text_target(self.name(number), label))
        return torch.as_tensor(self._labels)

    # No sentence from here on says that nothing was trained: a sample may be met in the middle of a run.

    def _mistake(self, numbers: Iterable[int], items: list[Any]) -> str | None:
        """What is wrong with these samples, in a sentence; None: nothing that we know of. What a user's collate takes
        is its own matter."""
        collate = getattr(self.collate, "func", self.collate)  # of a partial
        if collate is not default_collate and collate is not padded:
            return None
        pairs = list(zip(map(self.name, numbers), items, strict=True))
        for name, item in pairs:
            if not _is_pair(item):
                return (
                    f"The dataset's {name} is {_shown(item)}, not a pair (inputs, target). Let the dataset return two "
                    "things, or give a collate that makes (inputs, targets) of a list of samples."
                )
            if isinstance(item[1], str):
                return _text_target(name, item[1])
            if isinstance(item[0], str):
                return (
                    f"The inputs of {name} are the text {item[0][:40]!r}, and models take numbers. Let the "
                    "dataset return token numbers, with `collate=padded` from trueloop.data.padding where lengths differ."
                )
            if item[0] is None or item[1] is None:
                return f"The {'inputs of' if item[0] is None else 'target of'} {name} is None."
            odd = next((part for part in item if _no_numbers(part)), None)
            if odd is not None:
                return (
                    f"The dataset's {name} holds {_shown(odd)}, which cannot be stacked into a batch. Let the dataset "
                    "return tensors or numbers, as by torch.as_tensor(...), or give a collate of your own."
                )
        return None if collate is padded else _different(pairs, 0, "inputs") or _different(pairs, 1, "targets")


def _different(pairs: list[tuple[str, Any]], part: int, which: str) -> str | None:
    """Two samples that cannot be stacked: their numbers and shapes."""
    first, shape = pairs[0][0], _shape(pairs[0][1][part])
    for name, item in pairs:
        other = _shape(item[part])
        if other != shape:
            return (
                f"Samples of different shapes cannot be stacked into one batch: the {which} of {first} are {shape}, of {name} "
                f"{other}. Use `collate=padded` from trueloop.data.padding (sequences), or resize the "
                "samples to one shape (images)."
            )
    return None


def _shape(value: Any) -> list[int] | str:
    if isinstance(value, (list, tuple)):
        return [len(value)]
    shape = getattr(value, "shape", None)
    return (
        list(shape)
        if shape is not None
        else "a number"
        if isinstance(value, (bool, int, float))
        else f"a {type(value).__name__}"
    )


def _no_numbers(part: Any) -> bool:
    if isinstance(part, np.ndarray):
        return part.dtype.kind in "OUS"
    return not isinstance(part, (Tensor, np.number, bool, int, float, dict, list, tuple))


def _shown(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"a numpy array of {item.dtype}"
    if isinstance(item, dict):
        return f"a dict of {', '.join(map(str, list(item)[:4]))}"
    return f"a {type(item).__name__} of {len(item)}" if isinstance(item, (tuple, list)) else f"a {type(item).__name__}"


def _is_pair(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2


def _texts(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) > 0 and isinstance(value[0], str)


def _text_target(name: str, label: str) -> str:
    return (
        f"The target of {name} is the text {label[:40]!r}, and losses take class numbers. Number the classes "
        "from 0, as in {name: number for number, name in enumerate(sorted(set(names)))}."
    )
