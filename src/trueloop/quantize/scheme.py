"""The seam: a `Scheme` makes of a model one that answers nearly the same from fewer bits. One file of this folder per
scheme."""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, final

import torch
from torch import nn

from trueloop.data.source import Batch
from trueloop.errors import MissingExtra
from trueloop.export.exporter import installed
from trueloop.export.subject import Subject
from trueloop.measure.randomness import fence
from trueloop.torch_private.dispatch import PYTREE_LOGGER

__all__ = ["Calibration", "Scheme", "known_layers", "nbytes_of"]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TABLES = (nn.Embedding, nn.EmbeddingBag)


@final
@dataclass(frozen=True)
class Calibration:
    """The run's own training samples, as the model takes them, and the targets that go with them."""

    subject: Subject
    samples: int
    batch: int = 64
    spared: frozenset[int] = frozenset()
    """Numbers of training samples that the metric is measured on, where there are no others: they are never looked at
    here."""

    @property
    def count(self) -> int:
        """How many samples it looks at: as many as asked for, if there are."""
        return min(self.samples, len(self.subject.splits.train) - len(self.spared))

    def batches(self, *, epoch: int = 0) -> Iterator[Batch]:
        """The same each time; spread over all of them, others in another epoch."""
        source, prepare = self.subject.splits.train, self.subject.splits.prepare
        order = torch.randperm(len(source), generator=torch.Generator().manual_seed(self.subject.recipe.seed + epoch))
        chosen = (
            order
            if not self.spared
            else torch.tensor([number for number in order.tolist() if number not in self.spared])
        )
        for numbers in torch.split(chosen[: self.samples], self.batch):
            with fence(self.subject.recipe.seed):
                raw = source.fetch(numbers)
            yield Batch(raw.inputs if prepare is None else prepare(raw.inputs), raw.targets)


class Scheme(ABC):
    """One way to quantize."""

    name: ClassVar[str]
    about: ClassVar[str]
    """What becomes of the layers, in half a sentence."""
    layers: ClassVar[tuple[type[nn.Module], ...]]
    """Which kinds of layers it knows."""
    calibrates: ClassVar[bool] = False
    """Does it look at training samples?"""
    rounds_answers: ClassVar[bool] = False
    """Are activations rounded too? Then another runtime's rounding may differ by a step, and its tolerance is wider."""
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Target -> why what this scheme makes cannot go there."""

    def impossible(self) -> str:
        """Why this machine or this torch cannot do it; empty: it can."""
        return ""

    def require(self) -> None:
        """torchao is there, and loaded. Raises MissingExtra."""
        if not installed("torchao"):
            raise MissingExtra(
                f"--scheme {self.name} needs torchao, which is not installed. Nothing was run: pip install 'trueloop[quantize]'"
            )
        _import_quietly()

    @abstractmethod
    def quantized(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        """A copy of the model with these layers quantized; the model itself stays as it is."""

    def alone(self, model: nn.Module, name: str, calibration: Calibration) -> nn.Module:
        """The same with one layer, for its share of the cost; a scheme that knows a quicker way that gives the same
        numbers takes it."""
        return self.quantized(model, [name], calibration)

    def bytes_after(self, layer: nn.Module) -> int:
        """Of the layer's weight, in this scheme."""
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        return weight.numel() + 4 * len(weight)

    def apart(self, model: nn.Module, measured: float) -> float:
        """How far rounding has moved an answer at most. `measured`: how far the quantized model's answers are from the
        float model's."""
        return measured

    def for_target(self, model: nn.Module, target: str) -> nn.Module:
        """The quantized model as the target takes it best."""
        return model


def _import_quietly() -> None:
    """torch logs how torchao registers its own types with it; what goes wrong is raised."""
    logger = logging.getLogger(PYTREE_LOGGER)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module("torchao.quantization")
    finally:
        logger.setLevel(level)


def known_layers(model: nn.Module, kinds: tuple[type[nn.Module], ...]) -> dict[str, nn.Module]:
    """By name, in the order in which they stand; only those that hold a weight in float."""
    found = {}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if (
            isinstance(module, kinds)
            and isinstance(weight, torch.Tensor)
            and weight.is_floating_point()
            and weight.dim() > 1
        ):
            found[name] = module
    return found


def nbytes_of(model: nn.Module) -> int:
    """Of all tensors of its state; one that stands under several names once."""
    held: dict[Any, int] = {}
    for tensor in model.state_dict().values():
        if isinstance(tensor, torch.Tensor):
            held[tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.shape)] = (
                tensor.numel() * tensor.element_size()
            )
    return sum(held.values())
