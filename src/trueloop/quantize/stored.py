"""A weight in fewer bits, which becomes float again where a layer reads it.

The numbers are found by torchao; what is kept is said in plain operations of torch, so that every target can take it,
and whoever runs the artifact needs no torchao. A layer that reads its weight in a way of its own (a head tied to an
embedding) still finds one.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn
from torch.nn.utils import parametrize

from trueloop.quantize.scheme import TABLES

__all__ = ["GROUP", "Float8", "Int4", "Int8", "Stored", "replaced", "rounded", "with_stored"]

GROUP: Final = 32
"""Numbers that share a scale where there are only sixteen steps: one large weight spoils no more than its
neighbours."""
LARGEST_FLOAT8: Final = 448.0
"""Of float8_e4m3fn."""
SMALLEST_SCALE: Final = 1e-12
"""Of weights that are all zero: no division by it."""


class Stored(nn.Module, ABC):
    """Parts of a weight <-> the weight. torch calls `right_inverse` once, and `forward` whenever the weight is read."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape = tuple(shape)

    @abstractmethod
    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """What is kept of it: values, and what one is worth."""

    @abstractmethod
    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        """The weight as a layer reads it."""

    def rows(self, numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
        """These rows of it, for a table: where it can be, without making the others."""
        return F.embedding(numbers, self(values, scale))


@final
class Int8(Stored):
    """255 steps for each output."""

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        values, scale = rounded(weight, (1, *weight.shape[1:]), 127)
        return values, scale.reshape(-1, *(1,) * (weight.dim() - 1))

    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        return values.to(scale.dtype) * scale

    def rows(self, numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
        return F.embedding(numbers, values).to(scale.dtype) * F.embedding(numbers, scale)


@final
class Int4(Stored):
    """15 steps for each group of weights of an output, two weights in a byte."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__(shape)
        self.row = math.prod(self.shape[1:])

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        rows = F.pad(weight.flatten(1), (0, -self.row % GROUP))
        values, scale = rounded(rows, (1, GROUP), 7)
        pairs = (values + 8).to(torch.uint8).reshape(len(rows), -1, 2)
        return pairs[..., 0] | (pairs[..., 1] << 4), scale.reshape(len(rows), -1)

    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        return self._unpacked(values, scale).reshape(self.shape)

    def rows(self, numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
        return self._unpacked(F.embedding(numbers, values), F.embedding(numbers, scale))

    def _unpacked(self, values: Tensor, scale: Tensor) -> Tensor:
        """[..., bytes of a row] and [..., its groups] -> [..., its numbers]."""
        pairs = values.to(scale.dtype)
        high = (pairs / 16).floor()  # in float: not every target shifts bytes
        numbers = torch.stack((pairs - 16 * high, high), dim=-1) - 8
        grouped = numbers.reshape(*scale.shape, GROUP) * scale.unsqueeze(-1)
        return grouped.flatten(-2)[..., : self.row]


@final
class Float8(Stored):
    """Floats of four bits of exponent and three of mantissa, a scale for each output."""

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        largest = weight.abs().amax(dim=tuple(range(1, weight.dim())), keepdim=True)
        scale = (largest / LARGEST_FLOAT8).clamp(min=SMALLEST_SCALE)
        return (weight / scale).to(torch.float8_e4m3fn), scale

    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        return values.to(scale.dtype) * scale


def rounded(weight: Tensor, block: tuple[int, ...], most: int) -> tuple[Tensor, Tensor]:
    """Integers from -most to most, and what one is worth in each block, by torchao."""
    from torchao.quantization import MappingType, choose_qparams_affine, quantize_affine

    if math.prod(block) == 1:  # which torchao takes for one block of all
        scale = (weight.abs() / most).clamp(min=SMALLEST_SCALE)
        return (weight / scale).round().to(torch.int8), scale.flatten()
    scale, zero = choose_qparams_affine(
        weight, MappingType.SYMMETRIC, block, torch.int8, -most, most, eps=SMALLEST_SCALE, scale_dtype=weight.dtype
    )
    return quantize_affine(weight, block, scale, zero, torch.int8, -most, most), scale


# -- put into a model --


def with_stored(model: nn.Module, names: Sequence[str], stored: type[Stored]) -> nn.Module:
    """A copy in which these layers keep their weights so."""
    made = copy.deepcopy(model).requires_grad_(False)
    weights: dict[str, Tensor] = {name: _weight(made.get_submodule(name)) for name in names}
    kept: dict[int, tuple[Tensor, Tensor]] = {}  # of tied layers, one for both
    for name, weight in weights.items():
        layer, way = made.get_submodule(name), stored(weight.shape)
        parts = kept.setdefault(id(weight), way.right_inverse(weight.detach()))
        if isinstance(layer, TABLES):
            replaced(made, name, _Rows(layer, way, parts))
        else:
            parametrize.register_parametrization(layer, "weight", way)
            _share(layer, parts)
    return made.eval()


def _weight(layer: nn.Module) -> Tensor:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight


def _share(layer: nn.Module, parts: tuple[Tensor, Tensor]) -> None:
    """torch has rounded the weight once more, to the same numbers. As buffers, tied layers hold one tensor, in copies
    of the model too."""
    held = layer.get_submodule("parametrizations.weight")
    for name, part in zip(("original0", "original1"), parts, strict=True):
        delattr(held, name)
        held.register_buffer(name, part)


def replaced(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)


@final
class _Rows(nn.Module):
    """An embedding, or a bag of them: only the rows that are asked for become float, where each row has its own
    scale."""

    def __init__(self, table: nn.Module, stored: Stored, parts: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.register_buffer("values", parts[0])
        self.register_buffer("scale", parts[1])
        self.stored = stored
        self.bag = table.mode if isinstance(table, nn.EmbeddingBag) else ""

    @property
    def weight(self) -> Tensor:
        """All rows, for a layer that is tied to them."""
        whole: Tensor = self.stored(self.values, self.scale)
        return whole

    def forward(
        self, numbers: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        if self.bag and numbers.dim() != 2:
            return F.embedding_bag(numbers, self.weight, offsets, mode=self.bag, per_sample_weights=per_sample_weights)
        rows = self.stored.rows(numbers, self.get_buffer("values"), self.get_buffer("scale"))
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        return rows.sum(1) if self.bag == "sum" else rows.mean(1) if self.bag == "mean" else rows
