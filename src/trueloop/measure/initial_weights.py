"""Weights as PyTorch's initialization leaves them: uniform within an exact bound, norms at one and zero.

A few steps of training move some weights beyond the bound, and nothing brings all of them back inside. Nor does
training make the weights of all layers many times smaller than they were drawn, by one factor, where no norm takes the
size out.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.torch_private.modules import ConvNd, NormBase, own_parameters

__all__ = ["is_initial", "shrunken"]

LEAST: Final = 64  # numbers of a matrix
FEWEST: Final = 2  # matrices
ENOUGH: Final = 512  # numbers of all of them
MOST: Final = 64  # matrices
SAMPLED: Final = 4096  # numbers of each, for its distribution
LARGEST: Final = 2**24  # numbers of all
NEAR: Final = 20.0  # the largest of n numbers is within this many n-ths of the bound, but in one of e^20 draws
CHANCE: Final = 1.95  # Kolmogorov-Smirnov, times the root of n: p = 0.001
ROUNDED: Final = 1e-6
GATES: Final = (1, 3, 4)  # a recurrent layer stacks these: its bound is that of its hidden size
SHRUNKEN: Final = 0.07  # of the size of drawn weights: two such layers leave less than a hundredth of a signal
ONE_FACTOR: Final = (
    2.0  # between the largest and the smallest share: drawn with one small deviation, layers differ more
)
_NORMS: Final = (NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm)


@torch.no_grad()
def is_initial(state: Mapping[str, Tensor]) -> bool | None:
    """Whether all weights of a state are as they were drawn. None: too few, or of a kind that does not tell."""
    usable = {name: t.detach() for name, t in state.items() if is_plain(t) and is_readable(t) and t.is_cpu}
    floats = {name: t for name, t in usable.items() if t.dtype in (torch.float32, torch.float64)}
    matrices = [t for t in floats.values() if t.ndim >= 2 and t.numel() >= LEAST]
    total = sum(t.numel() for t in matrices)
    if not FEWEST <= len(matrices) <= MOST or not ENOUGH <= total <= LARGEST:
        return None
    uniform = [_is_uniform(matrix) for matrix in matrices]
    if not all(drawn or _is_normal(matrix) for drawn, matrix in zip(uniform, matrices, strict=True)):
        return False
    return sum(uniform) >= FEWEST and all(_is_untouched(name, t, floats) for name, t in floats.items() if t.ndim == 1)


def _bounds(matrix: Tensor) -> list[float]:
    """Of the usual initializations: that of layers, of attention, of recurrent layers."""
    inputs = matrix.numel() // matrix.shape[0]
    outputs = matrix.shape[0] * (inputs // matrix.shape[1])
    hidden = [matrix.shape[0] // gates for gates in GATES if matrix.ndim == 2 and matrix.shape[0] % gates == 0]
    return [inputs**-0.5, (6 / (inputs + outputs)) ** 0.5, (6 / inputs) ** 0.5, *(size**-0.5 for size in hidden)]


def _is_uniform(matrix: Tensor) -> bool:
    largest = float(matrix.abs().max())
    reach = 1 - NEAR / matrix.numel()
    bounds = [each for each in _bounds(matrix) if reach * each <= largest <= each * (1 + ROUNDED)]
    numbers = evenly_spaced(matrix.reshape(-1), SAMPLED).double()
    return any(_distance((numbers / bound + 1) / 2) <= CHANCE / len(numbers) ** 0.5 for bound in bounds)


def _is_normal(matrix: Tensor) -> bool:
    """An embedding."""
    numbers = evenly_spaced(matrix.reshape(-1), SAMPLED).double()
    return matrix.ndim == 2 and _distance(torch.special.ndtr(numbers)) <= CHANCE / len(numbers) ** 0.5


def _distance(values: Tensor) -> float:
    """Of numbers from the uniform distribution between 0 and 1 (Kolmogorov-Smirnov)."""
    steps = torch.arange(1, len(values) + 1, dtype=torch.float64) / len(values)
    return float((values.sort().values - steps).abs().max())


def _is_untouched(name: str, vector: Tensor, state: Mapping[str, Tensor]) -> bool:
    """A bias within the bound of its matrix; the gains and the statistics of a norm at one, its biases at zero."""
    first, last = float(vector.min()), float(vector.max())
    if first == last:
        return first in (0.0, 1.0)
    matrix = state.get(name.replace("bias", "weight"))
    if matrix is None or matrix.ndim < 2 or "bias" not in name:
        return False
    return max(-first, last) <= max(_bounds(matrix)) * (1 + ROUNDED)


@torch.no_grad()
def shrunken(module: nn.Module, state: Mapping[str, Tensor]) -> tuple[int, float] | None:
    """How many layers of a state there are, and the size of their weights as a share of what an initialization draws,
    where it is tiny, about the same in all layers, and nothing in the module makes up for it.

    Weights at zero do not count: they may be pruned.
    """
    layers = {}
    for name, part in module.named_modules():
        own = {key for key, parameter in own_parameters(part).items() if parameter is not None}
        if isinstance(part, _NORMS) or (
            own and not (isinstance(part, (nn.Linear, ConvNd)) and own <= {"weight", "bias"})
        ):
            return None
        if own:
            layers[f"{name}.weight" if name else "weight"] = part
    found = [state[name] for name in layers if name in state]
    if not FEWEST <= len(found) <= MOST or len(found) < len(layers) or not all(map(_is_weight, found)):
        return None
    shares = [_share(weight.detach()) for weight in found]
    fits = min(shares) > 0 and max(shares) <= min(SHRUNKEN, ONE_FACTOR * min(shares))
    return (len(shares), max(shares)) if fits else None


def _is_weight(tensor: Tensor) -> bool:
    fits = is_plain(tensor) and is_readable(tensor) and tensor.is_cpu and tensor.is_floating_point()
    return fits and tensor.ndim >= 2 and LEAST <= tensor.numel() <= LARGEST


def _share(weight: Tensor) -> float:
    """Of the root mean square of a uniform draw within 1 / sqrt(inputs), the smallest of the usual bounds."""
    numbers = evenly_spaced(weight.reshape(-1), SAMPLED).double()
    kept = numbers[numbers != 0]
    size = float(kept.square().mean().sqrt()) if len(kept) else 0.0
    return size * sqrt(3 * weight.numel() / weight.shape[0])
