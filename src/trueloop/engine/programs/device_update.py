"""An optimizer's step with its rate, and whether it is held back, as numbers on the device: so that it can be recorded
and played.

The host is asked nothing. By torch's own fused kernels; of Adam and AdamW also as a formula for the compiler, which
makes one small kernel of it where the fused one, made for many large tensors, is slow with few small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.engine.fused_adam import FusedStep, scaled_rate
from trueloop.errors import BadRecipe
from trueloop.torch_private.foreach import (
    foreach_add,
    foreach_add_,
    foreach_div,
    foreach_mul,
    foreach_mul_,
    foreach_sqrt,
    foreach_sub,
    foreach_sub_,
    fused_adamw_,
    fused_sgd_,
)

__all__ = ["DeviceUpdate", "adam_step"]

_ADAMS: Final = (torch.optim.Adam, torch.optim.AdamW)
_KNOWN: Final = (*_ADAMS, torch.optim.SGD)
SMALL: Final = 1 << 23
"""Numbers up to which a compiled formula gains: with more of them the time goes into moving them, and many tensors
compile for minutes."""
_ASKS_MORE: Final = ("amsgrad", "maximize", "differentiable", "dampening")
"""Options whose step is not done here."""


@final
class DeviceUpdate:
    """Steps an optimizer whose gradients are there."""

    def __init__(self, optimizer: torch.optim.Optimizer, direct: FusedStep, *, compiled: bool) -> None:
        self.optimizer, self.direct = optimizer, direct
        refuse(optimizer)
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        small = sum(parameter.numel() for parameter in parameters) <= SMALL
        self._compiled = compiled and small and type(optimizer) in _ADAMS
        self._formula: Callable[..., None] = (
            torch.compile(adam_step, fullgraph=True, dynamic=False) if self._compiled else adam_step
        )

    def prime(self, held: Tensor) -> None:
        """The optimizer's state, made by a step that is held back (`held` is 1): its tensors must be there to be
        recorded."""
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        fresh = [parameter for parameter in parameters if parameter not in self.optimizer.state]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        self.direct.step(held)
        for parameter in parameters:
            parameter.grad = None
        for parameter in fresh:
            momentum = self.optimizer.state[parameter].get("momentum_buffer")
            if momentum is not None:
                momentum.zero_()  # made by a step that did not fill it

    def step(self, rate: Tensor, held: Tensor) -> None:
        """`rate`, `held`: numbers on the device; if `held` is not 0, nothing is changed."""
        if isinstance(self.optimizer, torch.optim.SGD):
            self._sgd(rate, held)
        elif not self._compiled:
            self.direct.step(held, rate)
        else:
            for each in self.direct.gathered():
                group, decoupled = each.group, each.kernel is fused_adamw_
                self._formula(
                    each.parameters, [parameter.grad for parameter in each.parameters], each.averages, each.squares, each.count,
                    scaled_rate(rate, group), held, tuple(group["betas"]), group["eps"], group["weight_decay"], decoupled,
                )  # fmt: skip

    @torch.no_grad()
    def _sgd(self, rate: Tensor, held: Tensor) -> None:
        for group in self.optimizer.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            momenta = (
                [self.optimizer.state[parameter]["momentum_buffer"] for parameter in parameters]
                if group["momentum"]
                else []
            )
            fused_sgd_(
                parameters, [parameter.grad for parameter in parameters], momenta,
                weight_decay=group["weight_decay"], momentum=group["momentum"], lr=scaled_rate(rate, group), dampening=0.0,
                nesterov=group["nesterov"], maximize=False, is_first_step=False, grad_scale=None, found_inf=held,
            )  # fmt: skip


def refuse(optimizer: torch.optim.Optimizer) -> None:
    """Raises BadRecipe for an optimizer whose step cannot be held back, or given its rate, on the device."""
    kind = type(optimizer)
    if kind not in _KNOWN:
        raise BadRecipe(
            f"program=cuda_graphs plays steps of SGD, Adam and AdamW, and this is {kind.__name__}. Nothing was trained: give program=eager."
        )
    for group in optimizer.param_groups:
        wrong = [name for name in _ASKS_MORE if group.get(name)] + ([] if group.get("fused") else ["fused=False"])
        if wrong:
            raise BadRecipe(
                f"program=cuda_graphs cannot play a step of {kind.__name__} with {wrong[0]}. Nothing was trained: leave it out."
            )


@torch.no_grad()
def adam_step(
    parameters: list[Tensor],
    gradients: list[Tensor],
    averages: list[Tensor],
    squares: list[Tensor],
    count: Tensor,
    rate: Tensor,
    held: Tensor,
    betas: tuple[float, float],
    eps: float,
    decay: float,
    decoupled: bool,
) -> None:
    """Adam's formula, or AdamW's (`decoupled`), in operations that the compiler makes one kernel of.

    A step that is held back multiplies what it would add by 0: so that is made of finite numbers first.
    """
    taken = 1 - held
    count.add_(taken)
    steps = count[0].clamp(min=1)
    first, second = 1 - betas[0] ** steps, (1 - betas[1] ** steps).sqrt()
    given: Any = [torch.where(held > 0, torch.zeros_like(gradient), gradient) for gradient in gradients]
    if decay and decoupled:
        foreach_mul_(parameters, 1 - rate * taken * decay)
    elif decay:
        given = foreach_add(given, parameters, alpha=decay)
    foreach_add_(averages, foreach_mul(foreach_sub(given, averages), taken * (1 - betas[0])))
    foreach_add_(
        squares,
        foreach_mul(foreach_sub(foreach_mul(given, given), squares), taken * (1 - betas[1])),
    )
    below = foreach_add(foreach_div(foreach_sqrt(squares), second), eps)
    change = foreach_div(foreach_mul(averages, rate * taken / first), below)
    foreach_sub_(parameters, change)
