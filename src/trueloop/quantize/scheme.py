"""The seam: a `Scheme` turns a model into one with fewer bits and nearly the same outputs."""

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
from trueloop.export.exporter import installed_version
from trueloop.export.trained_model import TrainedModel
from trueloop.measure.randomness import fence
from trueloop.torch_private.dispatch import PYTREE_LOGGER

__all__ = ["TABLES", "WEIGHT_LAYERS", "Calibration", "Scheme", "known_layers", "nbytes_of"]

TABLES = (nn.Embedding, nn.EmbeddingBag)
WEIGHT_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TABLES)
"""Layers of the schemes that only store weights in fewer bits."""


@final
@dataclass(frozen=True)
class Calibration:
    """Prepared training samples of the run, with their targets."""

    trained: TrainedModel
    samples: int
    batch: int = 64
    excluded: frozenset[int] = frozenset()  # Training samples that measure the metric, where there are no other data

    @property
    def count(self) -> int:
        """`samples`, or as many as there are."""
        return min(self.samples, len(self.trained.splits.train) - len(self.excluded))

    def batches(self, *, epoch: int = 0) -> Iterator[Batch]:
        """Deterministic; another epoch takes other samples."""
        source, prepare, seed = self.trained.splits.train, self.trained.splits.prepare, self.trained.recipe.seed
        order = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed + epoch))
        if self.excluded:
            order = torch.tensor([number for number in order.tolist() if number not in self.excluded])
        for numbers in torch.split(order[: self.samples], self.batch):
            with fence(seed):
                raw = source.fetch(numbers)
            yield Batch(raw.inputs if prepare is None else prepare(raw.inputs), raw.targets)


class Scheme(ABC):
    """One way to quantize."""

    name: ClassVar[str]
    layers: ClassVar[tuple[type[nn.Module], ...]]  # Types of layers that it quantizes
    calibrates: ClassVar[bool] = False  # Does it need training samples?
    rounds_activations: ClassVar[bool] = False  # Then runtimes may round a step differently: the tolerance is wider
    refuses: ClassVar[Mapping[str, str]] = MappingProxyType({})  # Target -> why it does not support this scheme

    def unsupported(self) -> str:
        """Why it does not work with this machine or torch; empty: it does."""
        return ""

    def require(self) -> None:
        """Imports torchao. Raises MissingExtra."""
        if not installed_version("torchao"):
            raise MissingExtra(
                f"--scheme {self.name} needs torchao, which is not installed. Nothing was run: "
                "pip install 'trueloop[quantize]'"
            )
        _import_torchao()

    @abstractmethod
    def quantize(self, model: nn.Module, names: Sequence[str], calibration: Calibration) -> nn.Module:
        """A copy of the model with these layers quantized."""

    def quantize_layer(self, model: nn.Module, name: str, calibration: Calibration) -> nn.Module:
        """The same for a single layer, to measure its cost; a scheme may have a faster way to the same numbers."""
        return self.quantize(model, [name], calibration)

    def bytes_after(self, layer: nn.Module) -> int:
        """Size of the layer's quantized weight."""
        weight = layer.weight
        assert isinstance(weight, torch.Tensor)
        return weight.numel() + 4 * len(weight)


def _import_torchao() -> None:
    """Without torch's log messages about types that torchao registers."""
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
    """Layers of these types with a float weight, by name, in order."""
    found = {}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        is_matrix = isinstance(weight, torch.Tensor) and weight.is_floating_point() and weight.dim() > 1
        if isinstance(module, kinds) and is_matrix:
            found[name] = module
    return found


def nbytes_of(model: nn.Module) -> int:
    """Size of all tensors in the state dict; shared ones count once."""
    sizes: dict[Any, int] = {}
    for tensor in model.state_dict().values():
        if isinstance(tensor, torch.Tensor):
            key = tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.shape)
            sizes[key] = tensor.numel() * tensor.element_size()
    return sum(sizes.values())
