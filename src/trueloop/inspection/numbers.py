"""Numbers of a tensor that a person asks for: range, mean, spread, what is no number, how the values lie. Tensors are
only read."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from trueloop.results.document import Bars

__all__ = ["dtype_of", "histogram", "not_finite", "same_storage", "statistics_of", "storage_of"]

BINS: Final = 16
"""Bars of a histogram: enough for a shape, few enough for a screen."""
DISTINCT: Final = 20
"""Different whole numbers up to which each has a bar of its own."""


def dtype_of(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _wide(tensor: Tensor) -> Tensor:
    """As float64 on the host: sums of many small numbers, and of formats that cannot be added up, are then right."""
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    return plain.cpu().to(torch.float64).flatten()


def statistics_of(tensor: Tensor) -> dict[str, Any]:
    """Of the numbers that are numbers; a tensor without any has none."""
    values = _wide(tensor)
    finite = values[values.isfinite()]
    told: dict[str, Any] = dict.fromkeys(("min", "max", "mean", "std"))
    if len(finite):
        spread = float(finite.std(correction=0))
        told = {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean()), "std": spread}
    return {
        **told,
        "zeros": int((values == 0).sum()),
        "nan": int(values.isnan().sum()),
        "inf": int(values.isinf().sum()),
    }


def not_finite(tensor: Tensor) -> tuple[int, int]:
    """How many are nan, and how many inf."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0, 0
    values = _wide(tensor)
    return int(values.isnan().sum()), int(values.isinf().sum())


def histogram(tensor: Tensor, title: str) -> Bars | None:
    """None: there is nothing to count. Few different whole numbers have a bar each."""
    values = _wide(tensor)
    values = values[values.isfinite()]
    if not len(values):
        return None
    if not (tensor.is_floating_point() or tensor.is_complex()):
        different, counts = torch.unique(values, return_counts=True)
        if len(different) <= DISTINCT:
            return Bars(title, tuple(f"{int(each)}" for each in different), tuple(map(int, counts)))
    low, high = float(values.min()), float(values.max())
    if low == high:
        return Bars(title, (f"{low:.4g}",), (len(values),))
    places = ((values - low) / (high - low) * BINS).long().clamp_(max=BINS - 1)
    edges = [low + (high - low) * number / BINS for number in range(BINS + 1)]
    labels = tuple(f"{edges[number]:.3g} to {edges[number + 1]:.3g}" for number in range(BINS))
    return Bars(title, labels, tuple(map(int, torch.bincount(places, minlength=BINS))))


def storage_of(tensor: Tensor) -> tuple[str, int] | None:
    """What names a tensor's memory; None: it has none that could be shared (meta, sparse, nothing in it)."""
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        return None
    storage = tensor.untyped_storage()
    return (str(tensor.device), storage.data_ptr()) if storage.nbytes() else None


def same_storage(tensors: dict[str, Tensor]) -> dict[str, tuple[str, ...]]:
    """Name -> the others that lie in the same memory."""
    groups: dict[Any, list[str]] = {}
    for name, tensor in tensors.items():
        groups.setdefault(storage_of(tensor) or id(tensor), []).append(name)
    return {name: tuple(other for other in group if other != name) for group in groups.values() for name in group}
