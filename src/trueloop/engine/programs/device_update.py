"""An optimizer step that reads its learning rate and its skip flag on the device, so that CUDA graphs can record it.

It uses torch's fused kernels. For Adam and AdamW there is also a formula that the compiler turns into one small kernel:
the fused kernel is made for many large tensors and is slow with few small ones.
"""

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
SMALL: Final = 1 << 23  # parameters up to which the compiled formula is faster; many tensors take minutes to compile
_UNSUPPORTED: Final = ("amsgrad", "maximize", "differentiable", "dampening")


@final
class DeviceUpdate:
    """Steps an optimizer whose gradients are computed."""

    def __init__(self, optimizer: torch.optim.Optimizer, fused_step: FusedStep, *, compiled: bool) -> None:
        self.optimizer, self.fused_step = optimizer, fused_step
        require_supported(optimizer)
        self._parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        small = sum(parameter.numel() for parameter in self._parameters) <= SMALL
        self._compiled = compiled and small and type(optimizer) in _ADAMS
        self._formula: Callable[..., None] = adam_step
        if self._compiled:
            self._formula = torch.compile(adam_step, fullgraph=True, dynamic=False)

    def create_state(self, skipped: Tensor) -> None:
        """Create the optimizer's state by a skipped step (`skipped` is 1): its tensors must exist before recording."""
        fresh = [parameter for parameter in self._parameters if parameter not in self.optimizer.state]
        for parameter in self._parameters:
            parameter.grad = torch.zeros_like(parameter)
        self.fused_step.step(skipped)
        for parameter in self._parameters:
            parameter.grad = None
        for parameter in fresh:
            momentum = self.optimizer.state[parameter].get("momentum_buffer")
            if momentum is not None:
                momentum.zero_()  # the skipped step left it uninitialized

    def step(self, rate: Tensor, skipped: Tensor) -> None:
        """`rate`, `skipped`: numbers on the device; if `skipped` is not 0, nothing changes."""
        if isinstance(self.optimizer, torch.optim.SGD):
            self._sgd(rate, skipped)
        elif not self._compiled:
            self.fused_step.step(skipped, rate)
        else:
            for each in self.fused_step.prepared():
                group, decoupled = each.group, each.kernel is fused_adamw_
                gradients = [parameter.grad for parameter in each.parameters]
                options = tuple(group["betas"]), group["eps"], group["weight_decay"], decoupled
                rates = scaled_rate(rate, group), skipped
                self._formula(each.parameters, gradients, each.averages, each.squares, each.count, *rates, *options)

    @torch.no_grad()
    def _sgd(self, rate: Tensor, skipped: Tensor) -> None:
        for group in self.optimizer.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            state = self.optimizer.state
            momenta = [state[each]["momentum_buffer"] for each in parameters] if group["momentum"] else []
            options = {name: group[name] for name in ("weight_decay", "momentum", "nesterov")}
            fused_sgd_(
                parameters, [each.grad for each in parameters], momenta, lr=scaled_rate(rate, group), **options,
                dampening=0.0, maximize=False, is_first_step=False, grad_scale=None, found_inf=skipped,
            )  # fmt: skip


def require_supported(optimizer: torch.optim.Optimizer) -> None:
    """Raises BadRecipe for an optimizer whose step cannot be skipped, or take its learning rate, on the device."""
    kind = type(optimizer)
    if kind not in _KNOWN:
        raise BadRecipe(
            f"program=cuda_graphs supports SGD, Adam and AdamW, not {kind.__name__}. "
            "Nothing was trained: set program=eager."
        )
    for group in optimizer.param_groups:
        wrong = [name for name in _UNSUPPORTED if group.get(name)] + ([] if group.get("fused") else ["fused=False"])
        if wrong:
            what = f"{kind.__name__} with {wrong[0]}"
            raise BadRecipe(f"program=cuda_graphs does not support {what}. Nothing was trained: remove it.")


@torch.no_grad()
def adam_step(
    parameters: list[Tensor],
    gradients: list[Tensor],
    averages: list[Tensor],
    squares: list[Tensor],
    count: Tensor,
    rate: Tensor,
    skipped: Tensor,
    betas: tuple[float, float],
    eps: float,
    decay: float,
    decoupled: bool,
) -> None:
    """Adam's formula, or AdamW's (`decoupled`), in operations that the compiler fuses into one kernel.
    A skipped step multiplies its change by 0, so the change is made finite first."""
    taken = 1 - skipped
    count.add_(taken)
    steps = count[0].clamp(min=1)
    first, second = 1 - betas[0] ** steps, (1 - betas[1] ** steps).sqrt()
    finite: Any = [torch.where(skipped > 0, torch.zeros_like(gradient), gradient) for gradient in gradients]
    if decay and decoupled:
        foreach_mul_(parameters, 1 - rate * taken * decay)
    elif decay:
        finite = foreach_add(finite, parameters, alpha=decay)
    foreach_add_(averages, foreach_mul(foreach_sub(finite, averages), taken * (1 - betas[0])))
    change = foreach_sub(foreach_mul(finite, finite), squares)
    foreach_add_(squares, foreach_mul(change, taken * (1 - betas[1])))
    below = foreach_add(foreach_div(foreach_sqrt(squares), second), eps)
    foreach_sub_(parameters, foreach_div(foreach_mul(averages, rate * taken / first), below))
