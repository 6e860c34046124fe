"""NaN and Inf: does a value hold them, which of the two, in which samples, and the range of the finite rest."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from trueloop.measure.tensors import tensors_in

__all__ = ["bad_rows", "bounds", "is_bad_input", "nan_or_inf", "not_finite"]


def not_finite(value: Any) -> bool:
    """Does a tensor, or a tensor inside a container, hold NaN or Inf?"""
    return any(tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()) for tensor in tensors_in(value))


def nan_or_inf(value: Any) -> Literal["nan", "inf"]:
    """Which one a non-finite value holds."""
    nan = any(tensor.is_floating_point() and bool(tensor.isnan().any()) for tensor in tensors_in(value))
    return "nan" if nan else "inf"


def bounds(tensors: Iterable[Tensor]) -> tuple[float, float] | None:
    """The smallest and the largest finite value."""
    floating = (tensor.detach() for tensor in tensors if tensor.is_floating_point())
    ends = [finite.aminmax() for tensor in floating if (finite := tensor[torch.isfinite(tensor)]).numel()]
    return (min(float(low) for low, _ in ends), max(float(high) for _, high in ends)) if ends else None


def is_bad_input(tensor: Tensor) -> bool:
    """NaN or +Inf; -Inf alone is a mask."""
    return tensor.is_floating_point() and (bool(tensor.isnan().any()) or bool(tensor.isposinf().any()))


def bad_rows(tensor: Tensor) -> tuple[int, int, str] | None:
    """(first sample with NaN or +Inf, number of such samples, "nan" or "inf"); -Inf alone is a mask."""
    dense = tensor.layout is torch.strided and not tensor.is_meta
    if not (tensor.is_floating_point() and dense and tensor.dim() and tensor.numel()):
        return None
    values = tensor.detach()
    if bool(torch.isfinite(values.sum())):
        return None
    bad = (values.isnan() | values.isposinf()).reshape(values.shape[0], -1).any(1).nonzero()
    if not bad.numel():
        return None
    first = int(bad[0, 0])
    return first, bad.shape[0], nan_or_inf(values[first])
