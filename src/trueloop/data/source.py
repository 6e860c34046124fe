"""The seam between data and engine: a source gives the batch of any sample numbers.

Whatever the source (tensors, a dataset, a memory-mapped file, tar shards), a batch is a pure function of the numbers
asked for and, if the source draws random numbers, of the seeds that were set before. So order, position and resume
belong to the engine and are exact for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trueloop.errors import BadData

__all__ = ["Batch", "Facts", "Source", "Splits", "moved", "size_of", "tensors_in"]

Augment = Callable[[Any, torch.Generator], Any]
"""Changes the inputs of a training batch, on the device, drawing from the given generator only."""
Prepare = Callable[[Any], Any]
"""Makes raw inputs (uint8) what the model takes, on the device: for training and evaluation alike."""


class Batch(NamedTuple):
    """What the model is given, and what it should answer. Inputs may be a tensor, or a dict or tuple of tensors."""

    inputs: Any
    targets: Any


class Source(ABC):
    """Samples by number."""

    @abstractmethod
    def __len__(self) -> int:
        """How many samples."""

    @abstractmethod
    def fetch(self, numbers: Tensor) -> Batch:
        """The batch of these samples, in this order."""

    def resident(self, device: torch.device) -> Source | None:
        """The same source with all its samples on the device; None: they cannot be held as tensors."""
        return None

    def nbytes(self) -> int | None:
        """How much memory `resident` would take; None: it cannot be."""
        return None

    def labels(self) -> Tensor | None:
        """The class of each sample, for balanced sampling; None: they are not known without reading everything."""
        return None


@dataclass(frozen=True)
class Facts:
    """What a model or a check may need to know about the data."""

    inputs: tuple[int, ...] = ()
    """Shape of one sample as the model sees it."""
    classes: tuple[str, ...] = ()
    """Names of the classes, in the order of their numbers."""
    vocabulary: int = 0
    """How many different tokens."""
    outputs: int = 0
    """How many numbers the model answers with, where classes do not say it."""
    ignore: int | None = None
    """Target number that does not count (padding)."""
    more: dict[str, Any] = field(default_factory=dict)
    """What a recipe's own model wants to know: categories of columns, characters of a vocabulary."""


@dataclass(frozen=True)
class Splits:
    """What a recipe's `data` returns."""

    train: Source
    valid: Source | None = None
    test: Source | None = None
    facts: Facts = field(default_factory=Facts)
    prepare: Prepare | None = None
    augment: Augment | None = None
    notes: Sequence[str] = ()
    """What a person should know of them: '5,000 of 60,000 held out for validation'."""

    def __post_init__(self) -> None:
        if len(self.train) == 0:
            raise BadData(
                "The training data holds no samples. Nothing was trained: check the path and the filter that reads it."
            )
        for name, part in (("validation", self.valid), ("test", self.test)):
            if part is not None and len(part) == 0:
                raise BadData(
                    f"The {name} data holds no samples. Nothing was trained: leave it out, or check the filter that reads it."
                )


def moved(value: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """Tensors in dicts, lists and tuples moved to a device; everything else as it is."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=non_blocking)
    if isinstance(value, dict):
        return {key: moved(item, device, non_blocking=non_blocking) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(item, device, non_blocking=non_blocking) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device, non_blocking=non_blocking) for item in value)
    return value


def size_of(inputs: Any) -> int:
    """How many samples a batch's inputs hold: the first dimension of their first tensor."""
    if isinstance(inputs, Tensor):
        return inputs.shape[0]
    values = inputs.values() if isinstance(inputs, dict) else inputs
    return size_of(next(iter(values)))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor inside dicts, lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
