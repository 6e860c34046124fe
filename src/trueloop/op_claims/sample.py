"""One call of an operation: its arguments, and other calls made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.torch_private.dispatch import pytree

__all__ = ["SHORT", "Sample", "resized", "short_dtype"]

SHORT: Final = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8,
    "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
}  # fmt: skip
"""Names of dtypes in --inputs."""
_NAMES: Final = {dtype: name for name, dtype in SHORT.items()}
SHOWN: Final = 8  # Elements of a tensor whose values are printed


@dataclass(frozen=True)
class Sample:
    """The arguments of one call. Tensors may lie in lists and dicts."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in pytree.tree_leaves((self.args, dict(self.kwargs))) if isinstance(leaf, Tensor)]

    def floats(self) -> list[Tensor]:
        return [tensor for tensor in self.tensors() if tensor.is_floating_point()]

    def map(self, change: Callable[[Tensor], Tensor]) -> Sample:
        args, kwargs = pytree.tree_map_only(Tensor, change, (self.args, dict(self.kwargs)))
        return Sample(args, kwargs)

    def map_one(self, number: int, change: Callable[[Tensor], Tensor]) -> Sample:
        """Only the tensor of this number."""
        counted = iter(range(len(self.tensors())))
        return self.map(lambda tensor: change(tensor) if next(counted) == number else tensor)

    def replace(self, tensors: Iterator[Tensor]) -> Sample:
        """The same call with these tensors."""
        return self.map(lambda _: next(tensors))

    def copied(self) -> Sample:
        """With contiguous tensors of its own."""
        return self.map(lambda tensor: tensor.detach().clone(memory_format=torch.contiguous_format))

    def cast(self, dtype: torch.dtype) -> Sample:
        """Floating-point tensors in another dtype."""
        return self.map(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def call(self, function: Callable[..., Any]) -> Any:
        return function(*self.args, **self.kwargs)

    def describe(self) -> str:
        """'f32[4,8], dim=-1'."""
        named = [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        return ", ".join([*map(_text, self.args), *named])

    def values(self) -> str:
        """The values of small tensors: '[[0.5, -1.0]]'."""
        small = [tensor for tensor in self.tensors() if tensor.numel() <= SHOWN]
        return "; ".join(str(pytree.tree_map(_rounded, tensor.detach().tolist())) for tensor in small)


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def short_dtype(dtype: torch.dtype) -> str:
    return _NAMES.get(dtype, str(dtype).removeprefix("torch."))


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{short_dtype(value.dtype)}[{','.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def resized(sample: Sample, size: int, smaller: int) -> Sample:
    """Every dimension of this size made smaller, in all tensors: sizes that agree still do. So are sizes in lists, like
    the `[8]` of layer_norm."""

    def narrow(tensor: Tensor) -> Tensor:
        for dim, length in enumerate(tensor.shape):
            if length == size:
                tensor = tensor.narrow(dim, 0, smaller)
        return tensor.clone(memory_format=torch.contiguous_format)

    def change(value: Any) -> Any:
        if isinstance(value, Tensor):
            return narrow(value)
        if isinstance(value, (list, tuple)):
            inner = [smaller if isinstance(each, int) and each == size else change(each) for each in value]
            return type(value)(inner)
        return value

    return Sample(tuple(map(change, sample.args)), {name: change(value) for name, value in sample.kwargs.items()})
