"""Dropout as a pure function of two random numbers, for compiled CPU code.

torch's dropout on a CPU draws its numbers one after the other, on one core. Here each element hashes its own index, the
index of its layer and two numbers drawn per batch from torch's generator: the same distribution, different draws. The
compiler turns this into a few instructions inside the kernel before it and recomputes it in the backward, so nothing is
stored.

The two numbers come from torch's generator, so seeds, checkpoints and saved random states work as usual.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import torch
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["HashedDropout", "draw_seeds", "keep_mask"]

_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - 2**32  # odd factors that spread changed bits ("lowbias32", C. Wellons 2018)
_LAYER_STRIDE: Final = 0x9E3779B9 - 2**32  # between two layers: multiples of the golden ratio fill the range evenly


def draw_seeds() -> Tensor:
    """Two numbers per batch, from torch's generator."""
    return torch.empty(2, dtype=torch.int32).random_(-(2**31), 2**31)


def keep_mask(shape: Sequence[int], share: float, seeds: Tensor, layer: int) -> Tensor:
    """True for elements that are kept: this share of them, to 2^-32."""
    index = torch.arange(torch.Size(shape).numel(), dtype=torch.int32).view(shape)
    offset = (layer * _LAYER_STRIDE + 2**31) % 2**32 - 2**31
    bits = index * (seeds[1] | 1) + (seeds[0] + offset)  # each batch has its own stride: two batches do not overlap
    # Shifts keep the sign, so the bits they bring in from the left are masked. Only the highest bits are used, which
    # the second product sets last: another round would make the compiler write each expression out once more.
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _FIRST
    bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * _SECOND
    return bits < min(round(share * 2**32) - 2**31, 2**31 - 1)


@final
class HashedDropout(TorchFunctionMode):
    """Replaces `F.dropout`; each call in turn is a layer of its own. Other random operations stay torch's."""

    def __init__(self, seeds: Tensor) -> None:
        super().__init__()
        self.seeds, self.layers = seeds, 0

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._dropout(*args, **(kwargs or {})) if func is F.dropout else func(*args, **(kwargs or {}))

    def _dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or not 0.0 < p < 1.0 or input.device.type != "cpu":
            return F.dropout(input, p, training, inplace)  # torch's own: a mode is off inside its handler
        self.layers += 1
        share = 1.0 - p
        mask = keep_mask(input.shape, share, self.seeds, self.layers - 1)
        return input * torch.where(mask, 1.0 / share, 0.0).to(input.dtype)
