"""Statistics of a tensor: range, mean, standard deviation, NaN and Inf, histogram. Tensors are only read."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.results.document import Bars

__all__ = ["dtype_counts", "dtype_of", "histogram", "not_finite", "same_storage", "statistics_of"]

BINS: Final = 16  # bars of a histogram
DISTINCT: Final = 20  # distinct integers up to which each has its own bar


def dtype_of(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def dtype_counts(tensors: Iterable[Tensor]) -> str:
    """'float32 (12), int64 (1)'."""
    return ", ".join(f"{name} ({count})" for name, count in Counter(map(dtype_of, tensors)).most_common())


def _wide(tensor: Tensor) -> Tensor:
    """As float64 on the host, for exact sums in any dtype."""
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    return plain.cpu().to(torch.float64).flatten()


def statistics_of(tensor: Tensor) -> dict[str, Any]:
    """Of the finite values; None if there are none."""
    values = _wide(tensor)
    finite = values[values.isfinite()]
    statistics: dict[str, Any] = dict.fromkeys(("min", "max", "mean", "std"))
    if len(finite):
        statistics = {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
        statistics["std"] = float(finite.std(correction=0))
    counts = {"zeros": values == 0, "nan": values.isnan(), "inf": values.isinf()}
    return statistics | {name: int(each.sum()) for name, each in counts.items()}


def not_finite(tensor: Tensor) -> tuple[int, int]:
    """The numbers of NaN and of Inf."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0, 0
    values = _wide(tensor)
    return int(values.isnan().sum()), int(values.isinf().sum())


def histogram(tensor: Tensor, title: str) -> Bars | None:
    """None: no finite value. Few distinct integers have a bar each."""
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
    """Identifies a tensor's memory; None: it cannot be shared (meta, sparse, empty)."""
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        return None
    storage = tensor.untyped_storage()
    return (str(tensor.device), storage.data_ptr()) if storage.nbytes() else None


def same_storage(tensors: dict[str, Tensor]) -> dict[str, tuple[str, ...]]:
    """Name -> the others in the same memory."""
    groups: dict[Any, list[str]] = {}
    for name, tensor in tensors.items():
        groups.setdefault(storage_of(tensor) or id(tensor), []).append(name)
    return {name: tuple(other for other in group if other != name) for group in groups.values() for name in group}
