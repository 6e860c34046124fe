"""An exponential moving average of the weights, which is then what is evaluated and shipped."""

import copy
from collections.abc import Callable, Iterable
from typing import final

import torch
from torch import Tensor, nn

from trueloop.torch_private.foreach import foreach_add_, foreach_copy_, foreach_lerp_, foreach_mul, foreach_sub

__all__ = ["Ema"]


@final
class Ema:
    """Follows a model; buffers (running statistics) are copied, not averaged."""

    def __init__(
        self,
        model: nn.Module,
        decay: float,
        twin: nn.Module | None = None,
        own: Callable[[Iterable[Tensor]], list[Tensor]] = list,
    ) -> None:
        """`twin`: a copy, where the model cannot be copied because processes hold parts of it; `own`: those parts."""
        self.decay = decay
        self.model = (copy.deepcopy(model) if twin is None else twin).requires_grad_(False).eval()
        with torch.no_grad():
            self._weights: tuple[list[Tensor], list[Tensor]] = own(self.model.parameters()), own(model.parameters())
        self._buffers = list(self.model.buffers()), list(model.buffers())

    @torch.no_grad()
    def follow(self, step: int) -> None:
        averages, weights = self._weights
        foreach_lerp_(averages, weights, 1 - self.decay_at(step))
        self.copy_buffers()

    @torch.no_grad()
    def follow_by(self, share: Tensor) -> None:
        """The same, with the share of the weights as a number on the device."""
        averages, weights = self._weights
        foreach_add_(averages, foreach_mul(foreach_sub(weights, averages), share))
        self.copy_buffers()

    def decay_at(self, step: int) -> float:
        """In the first steps the average would be mostly the random beginning: the decay grows into its value."""
        return min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def copy_buffers(self) -> None:
        if self._buffers[0]:
            foreach_copy_(*self._buffers)
