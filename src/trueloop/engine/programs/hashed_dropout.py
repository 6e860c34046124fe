"""Dropout whose choice is a pure function of two drawn numbers: cheap where torch's own is the dearest of the small
operations.

torch's dropout on a CPU draws its numbers one after the other, on one core. Here each point asks a hash of its own
place, the place of its layer and two numbers drawn for the whole batch from torch's generator: the same distribution,
other draws. A compiler makes of it a few instructions inside the kernel before it, computes it again in the backward
instead of keeping it, and leaves nothing to store.

As the two numbers come from torch's generator, seeds, checkpoints and fences hold for it as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["HashedDropout", "draw_seeds", "keep_mask"]

_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - 2**32
"""Odd factors with which few changed bits of a number change half of the result's (C. Wellons' search of 2018,
"lowbias32")."""
_APART: Final = 0x9E3779B9 - 2**32
"""Between the places of two layers: multiples of the golden section fill the numbers evenly, so that no two layers
meet."""


def draw_seeds() -> Tensor:
    """Two numbers for one batch, from torch's generator."""
    return torch.empty(2, dtype=torch.int32).random_(-(2**31), 2**31)


def keep_mask(shape: Sequence[int], share: float, numbers: Tensor, layer: int) -> Tensor:
    """True where a point is kept: for this share of all points, to 2^-32."""
    places = torch.arange(torch.Size(shape).numel(), dtype=torch.int32).view(shape)
    offset = (layer * _APART + 2**31) % 2**32 - 2**31
    bits = places * (numbers[1] | 1) + (
        numbers[0] + offset
    )  # strides of its own: two batches do not walk over the same numbers
    # Shifts keep the sign, so what they bring in from the left is cut off. Only the highest bits are asked, which come
    # last of all from
    # the second product: another turn would only make the compiler write each expression out once more.
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _FIRST
    bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * _SECOND
    return bits < min(round(share * 2**32) - 2**31, 2**31 - 1)


@final
class HashedDropout(TorchFunctionMode):
    """While it stands, `dropout` asks these numbers; each call of it in turn is a layer of its own. Other draws are
    torch's, as ever."""

    def __init__(self, numbers: Tensor) -> None:
        super().__init__()
        self.numbers, self.layers = numbers, 0

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._dropout(*args, **(kwargs or {})) if func is F.dropout else func(*args, **(kwargs or {}))

    def _dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or not 0.0 < p < 1.0 or input.device.type != "cpu":
            return F.dropout(
                input, p, training, inplace
            )  # torch answers itself: a mode does not see what is called inside it
        self.layers += 1
        share = 1.0 - p
        return input * torch.where(keep_mask(input.shape, share, self.numbers, self.layers - 1), 1.0 / share, 0.0).to(
            input.dtype
        )
