"""Inputs beyond the validation data: an exported program must follow the model there, too.

A branch that no validation sample takes, a constant in place of a computed size, a kernel that overflows earlier: none
of them shows on data that resemble one another.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from trueloop.export.program import is_tokens

__all__ = ["MANY", "inputs_beyond_data"]

MANY: Final = 130  # A batch size above all others of the verification
NOISE: Final = 0.1  # Of the standard deviation
FAR: Final = 10.0  # Times the largest value


def inputs_beyond_data(raw: Sequence[Tensor], tokens: int | None) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """By name. `tokens`: the size of the vocabulary, if it is known. The model may refuse some of them."""
    draws = torch.Generator().manual_seed(0)
    limits = [_limits(tensor, tokens) for tensor in raw]
    changes: dict[str, Callable[[Tensor, tuple[float, float]], Tensor]] = {
        "zeros": lambda tensor, _: torch.zeros_like(tensor),
        "perturbed": lambda tensor, span: _perturbed(tensor, span, draws),
        "extreme values": lambda tensor, span: _either(tensor, span, draws),
        "lowest values": lambda tensor, span: _filled(tensor, span[0]),
        "highest values": lambda tensor, span: _filled(tensor, span[1]),
    }
    for name, change in changes.items():
        yield name, tuple(change(tensor, span) for tensor, span in zip(raw, limits, strict=True))


def _limits(tensor: Tensor, tokens: int | None) -> tuple[float, float]:
    """The smallest and the largest value to try."""
    if tensor.dtype == torch.bool:
        return 0, 1
    if tensor.is_floating_point() or tensor.is_complex():
        furthest = FAR * float(tensor.abs().nan_to_num(0.0, 1.0).max() if tensor.numel() else 1.0)
        return -furthest, furthest
    if tensor.dtype == torch.uint8:
        return 0, 255
    if is_tokens(tensor) and tokens:
        return 0, tokens - 1
    return int(tensor.min()), int(tensor.max())


def _perturbed(tensor: Tensor, span: tuple[float, float], draws: torch.Generator) -> Tensor:
    if tensor.is_floating_point():
        spread = float(tensor.double().std(correction=0).nan_to_num(0.0)) or 1.0
        return tensor + (NOISE * spread * torch.randn(tensor.shape, generator=draws)).to(tensor.dtype)
    if tensor.is_complex():
        return tensor * (1 + NOISE)
    return torch.randint(int(span[0]), int(span[1]) + 1, tensor.shape, generator=draws).to(tensor.dtype)


def _either(tensor: Tensor, span: tuple[float, float], draws: torch.Generator) -> Tensor:
    high = torch.randint(0, 2, tensor.shape, generator=draws).bool()
    return torch.where(high, _filled(tensor, span[1]), _filled(tensor, span[0]))


def _filled(tensor: Tensor, value: float) -> Tensor:
    return torch.full(tensor.shape, value).to(tensor.dtype)
