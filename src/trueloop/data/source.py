"""The seam between data and engine: a source returns the batch for a list of sample indices.

For every source (tensors, a dataset, a memory-mapped file, tar shards) a batch is a pure function of the indices and,
if the source draws random numbers, of the current seeds. So order, position and resume belong to the engine
and are exact.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from trueloop.errors import BadData, NotByIndex
from trueloop.measure.tensors import tensors_in

__all__ = [
    "Batch",
    "Facts",
    "Source",
    "Splits",
    "map_leaves",
    "map_tensors",
    "moved",
    "samples_in",
    "size_of",
    "tensors_in",
]

# Augments a training batch on the device, drawing only from the generator: (inputs, generator) -> inputs, or
# (inputs, targets, generator) -> (inputs, targets)
Augment = Callable[..., Any]
# Converts raw inputs (uint8) to model inputs on the device, in training and in evaluation
Prepare = Callable[[Any], Any]


class Batch(NamedTuple):
    """Model inputs (a tensor, or a dict or tuple of tensors) and targets."""

    inputs: Any
    targets: Any


class Source(ABC):
    """Samples by index."""

    by_index: ClassVar[bool] = True  # False: batches come one after another; `len` and `fetch` may raise NotByIndex

    @abstractmethod
    def __len__(self) -> int:
        """How many samples."""

    @abstractmethod
    def fetch(self, numbers: Tensor) -> Batch:
        """The batch of these samples, in this order."""

    def resident(self, device: torch.device) -> Source | None:
        """The same source with all samples on the device; None if they cannot be held as tensors."""
        return None

    def nbytes(self) -> int | None:
        """Memory that `resident` needs; None if there is no resident form."""
        return None

    def labels(self) -> Tensor | None:
        """The class of each sample, for balanced sampling; None if only reading all samples would tell."""
        return None


@dataclass(frozen=True)
class Facts:
    """Properties of the data that a model or a check needs."""

    inputs: tuple[int, ...] = ()  # Shape of one sample as the model sees it
    classes: tuple[str, ...] = ()  # Class names, by class index
    vocabulary: int = 0  # Number of different tokens
    outputs: int = 0  # Number of model outputs, where `classes` does not determine it
    ignore: int | None = None  # Target value that the loss ignores (padding)
    more: dict[str, Any] = field(default_factory=dict)  # for the model: categories, a vocabulary ...


@dataclass(frozen=True)
class Splits:
    """What a recipe's `data` returns."""

    train: Source
    valid: Source | None = None
    test: Source | None = None
    facts: Facts = field(default_factory=Facts)
    prepare: Prepare | None = None
    augment: Augment | None = None
    shared: Sequence[str | int] = ()  # Keys or positions of inputs that all samples share: an attention mask [T, T]
    notes: Sequence[str] = ()  # Remarks for the user: '5,000 of 60,000 held out for validation'

    def __post_init__(self) -> None:
        for name, part in (("training", self.train), ("validation", self.valid), ("test", self.test)):
            if part is not None and _is_empty(part):
                cure = "check" if name == "training" else "leave it out, or check"
                raise BadData(f"The {name} data is empty. Nothing was trained: {cure} the path and its filter.")

    @cached_property
    def augments_targets(self) -> bool:
        """Does `augment` take (inputs, targets, generator), as mixup does?"""
        if self.augment is None:
            return False
        try:
            taken = inspect.signature(self.augment).parameters.values()
        except ValueError:
            return False  # built in: it has no signature to look at
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return sum(each.kind in places and each.default is inspect.Parameter.empty for each in taken) == 3


def samples_in(source: Source) -> int | None:
    """How many; None: unknown, as of a stream."""
    try:
        return len(source)
    except NotByIndex:
        return None


def _is_empty(part: Any) -> bool:
    if isinstance(part, Source) and not part.by_index:
        return False
    try:
        return len(part) == 0
    except TypeError:
        return False  # an iterable without a length


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change everything inside dicts, lists and tuples."""
    if isinstance(value, dict):
        items = {key: map_leaves(item, change) for key, item in value.items()}
        return type(value)(**items) if is_dataclass(value) else items  # an output of Hugging Face is both
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_leaves(item, change) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(map_leaves(item, change) for item in value)
    return change(value)


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    return map_leaves(value, lambda leaf: change(leaf) if isinstance(leaf, Tensor) else leaf)


def moved(value: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """The value with all tensors in dicts, lists and tuples moved to a device."""
    return map_tensors(value, lambda tensor: tensor.to(device, non_blocking=non_blocking))


def size_of(inputs: Any) -> int:
    """The batch size: the first dimension of the first tensor."""
    if isinstance(inputs, Tensor):
        return inputs.shape[0]
    values = inputs.values() if isinstance(inputs, dict) else inputs
    return size_of(next(iter(values)))
