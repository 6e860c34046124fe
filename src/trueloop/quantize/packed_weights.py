"""Weights stored in fewer bits and converted to float when a layer reads them.

torchao chooses the values; unpacking uses plain torch operations, so that every target supports it and running the
artifact does not need torchao. A layer that reads `weight` itself (a head tied to an embedding) still works.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, final

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn
from torch.nn.utils import parametrize

from trueloop.quantize.scheme import TABLES

__all__ = ["GROUP", "Float8", "Int4", "Int8", "PackedWeight", "pack_weights", "replace_module", "round_symmetric"]

GROUP: Final = 32  # 4-bit weights that share a scale
LARGEST_FLOAT8: Final = 448.0  # Of float8_e4m3fn
SMALLEST_SCALE: Final = 1e-12  # For weights that are all zero


class PackedWeight(nn.Module, ABC):
    """A parametrization: torch calls `right_inverse` once, and `forward` whenever the weight is read."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape = tuple(shape)

    @abstractmethod
    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Values and their scale."""

    @abstractmethod
    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        """The weight in float."""

    def rows(self, numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
        """Rows of an embedding; subclasses avoid unpacking the others."""
        return F.embedding(numbers, self(values, scale))


@final
class Int8(PackedWeight):
    """255 levels per output channel."""

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        values, scale = round_symmetric(weight, (1, *weight.shape[1:]), 127)
        return values, scale.reshape(-1, *(1,) * (weight.dim() - 1))

    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        return values.to(scale.dtype) * scale

    def rows(self, numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
        return F.embedding(numbers, values).to(scale.dtype) * F.embedding(numbers, scale)


@final
class Int4(PackedWeight):
    """15 levels per group of weights, two weights per byte."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__(shape)
        self.row = math.prod(self.shape[1:])

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        rows = F.pad(weight.flatten(1), (0, -self.row % GROUP))
        values, scale = round_symmetric(rows, (1, GROUP), 7)
        pairs = (values + 8).to(torch.uint8).reshape(len(rows), -1, 2)
        return pairs[..., 0] | (pairs[..., 1] << 4), scale.reshape(len(rows), -1)

    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        return self._unpacked(values, scale).reshape(self.shape)

    def rows(self, numbers: Tensor, values: Tensor, scale: Tensor) -> Tensor:
        return self._unpacked(F.embedding(numbers, values), F.embedding(numbers, scale))

    def _unpacked(self, values: Tensor, scale: Tensor) -> Tensor:
        """[..., bytes] and [..., groups] -> [..., weights]."""
        pairs = values.to(scale.dtype)
        high = (pairs / 16).floor()  # in float: not every target has bit shifts
        numbers = torch.stack((pairs - 16 * high, high), dim=-1) - 8
        grouped = numbers.reshape(*scale.shape, GROUP) * scale.unsqueeze(-1)
        return grouped.flatten(-2)[..., : self.row]


@final
class Float8(PackedWeight):
    """float8_e4m3fn with a scale per output channel."""

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        largest = weight.abs().amax(dim=tuple(range(1, weight.dim())), keepdim=True)
        scale = (largest / LARGEST_FLOAT8).clamp(min=SMALLEST_SCALE)
        return (weight / scale).to(torch.float8_e4m3fn), scale

    def forward(self, values: Tensor, scale: Tensor) -> Tensor:
        return values.to(scale.dtype) * scale


def round_symmetric(weight: Tensor, block: tuple[int, ...], most: int) -> tuple[Tensor, Tensor]:
    """Integers from -most to most and the scale of each block, by torchao."""
    from torchao.quantization import MappingType, choose_qparams_affine, quantize_affine

    if math.prod(block) == 1:  # torchao would take it for a single block
        scale = (weight.abs() / most).clamp(min=SMALLEST_SCALE)
        return (weight / scale).round().to(torch.int8), scale.flatten()
    scale, zero = choose_qparams_affine(
        weight, MappingType.SYMMETRIC, block, torch.int8, -most, most, eps=SMALLEST_SCALE, scale_dtype=weight.dtype
    )
    return quantize_affine(weight, block, scale, zero, torch.int8, -most, most), scale


def pack_weights(model: nn.Module, names: Sequence[str], packing: type[PackedWeight]) -> nn.Module:
    """A copy in which these layers store packed weights."""
    made = copy.deepcopy(model).requires_grad_(False)
    weights: dict[str, Tensor] = {name: _weight(made.get_submodule(name)) for name in names}
    shared: dict[int, tuple[Tensor, Tensor]] = {}  # tied layers
    for name, weight in weights.items():
        layer, packed = made.get_submodule(name), packing(weight.shape)
        parts = shared.setdefault(id(weight), packed.right_inverse(weight.detach()))
        if isinstance(layer, TABLES):
            replace_module(made, name, _PackedEmbedding(layer, packed, parts))
        else:
            parametrize.register_parametrization(layer, "weight", packed)
            _share(layer, parts)
    return made.eval()


def _weight(layer: nn.Module) -> Tensor:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight


def _share(layer: nn.Module, parts: tuple[Tensor, Tensor]) -> None:
    """Tied layers share one buffer, also in copies of the model. torch has packed the weight again, to equal values."""
    held = layer.get_submodule("parametrizations.weight")
    for name, part in zip(("original0", "original1"), parts, strict=True):
        delattr(held, name)
        held.register_buffer(name, part)


def replace_module(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)


@final
class _PackedEmbedding(nn.Module):
    """An `nn.Embedding` or `nn.EmbeddingBag` that unpacks only the rows it looks up."""

    def __init__(self, table: nn.Module, packed: PackedWeight, parts: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.register_buffer("values", parts[0])
        self.register_buffer("scale", parts[1])
        self.packed = packed
        self.bag = table.mode if isinstance(table, nn.EmbeddingBag) else ""

    @property
    def weight(self) -> Tensor:
        """All rows, for a tied layer."""
        weight: Tensor = self.packed(self.values, self.scale)
        return weight

    def forward(
        self, numbers: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        if self.bag and numbers.dim() != 2:
            return F.embedding_bag(numbers, self.weight, offsets, mode=self.bag, per_sample_weights=per_sample_weights)
        rows = self.packed.rows(numbers, self.get_buffer("values"), self.get_buffer("scale"))
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        return rows.sum(1) if self.bag == "sum" else rows.mean(1) if self.bag == "mean" else rows
