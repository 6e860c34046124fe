"""Small problems that an optimizer is tried on: the same initial values and gradients each time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

__all__ = ["NET", "PROBLEMS", "QUADRATIC", "ROSENBROCK", "SEPARABLE", "Problem"]

Loss = Callable[[Sequence[Tensor]], Tensor]


@dataclass(frozen=True)
class Problem:
    name: str
    shapes: tuple[tuple[int, ...], ...]
    loss: Loss
    spread: float = 1.0  # of the initial values

    def as_matrices(self) -> Problem:
        """With the same numbers in two dimensions, for optimizers that take nothing else."""
        shapes = tuple((math.prod(shape[:-1]), shape[-1]) if shape else (1, 1) for shape in self.shapes)
        return replace(self, shapes=shapes)

    def parameters(self, dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
        draws = torch.Generator().manual_seed(3)
        values = (torch.randn(shape, generator=draws, dtype=torch.float64) * self.spread for shape in self.shapes)
        return [nn.Parameter(value.to(dtype)) for value in values]


@cache
def _drawn(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draws, dtype=torch.float64).to(dtype)


@cache
def _curvature(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.linspace(0.1, 10, math.prod(shape), dtype=dtype).view(shape)


def _quadratic(scale: float) -> Loss:
    """Curvatures from 0.1 to 10; the minimum is not at zero, so that weight decay matters."""

    def loss(parameters: Sequence[Tensor]) -> Tensor:
        terms = [
            (_curvature(each.shape, each.dtype) * (each - _drawn(each.shape, each.dtype, number)) ** 2).sum()
            for number, each in enumerate(parameters)
        ]
        return scale * torch.stack(terms).sum()

    return loss


def _net(parameters: Sequence[Tensor]) -> Tensor:
    """Classes that depend on the signs of two numbers."""
    first, bias, second, last = parameters
    inputs = _drawn((64, 4), first.dtype, 5)
    labels = (inputs[:, 0] * inputs[:, 1] > 0).long() + (inputs[:, 2] > 0).long()
    return F.cross_entropy(torch.tanh(inputs @ first + bias) @ second + last, labels)


def _rosenbrock(parameters: Sequence[Tensor]) -> Tensor:
    x, y = parameters[0].flatten()
    value: Tensor = (1 - x) ** 2 + 100 * (y - x * x) ** 2
    return value


SHAPES: Final = ((), (1,), (7,), (5, 3), (2, 3, 4))
QUADRATIC: Final = Problem("a quadratic", SHAPES, _quadratic(1.0))
TINY: Final = Problem("gradients of about 1e-7", SHAPES, _quadratic(1e-8))  # eps matters here
NET: Final = Problem("a small network", ((4, 8), (8,), (8, 3), (3,)), _net, spread=0.5)
ROSENBROCK: Final = Problem("Rosenbrock's function", ((2,),), _rosenbrock)
SEPARABLE: Final = Problem("separate quadratics", ((7,), (7,), (5, 3)), _quadratic(1.0))
PROBLEMS: Final = (QUADRATIC, NET, TINY)
