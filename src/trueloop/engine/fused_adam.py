"""Adam's and AdamW's own fused kernel, called directly: bit-identical to `optimizer.step()`, without its overhead.

`optimizer.step()` collects its tensors, groups them by device and dtype, calls profiler and compiler hooks and counts
one step per parameter, every time. On a small model that costs as much as the update. Here the tensors are collected
once. When anything changes (a gradient is missing, a hook listens to the optimizer's steps, its state was loaded), the
optimizer takes the step itself.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor
from torch.optim import optimizer as torch_optimizer

from trueloop.torch_private.foreach import fused_adam_, fused_adamw_
from trueloop.torch_private.optimizers import has_step_hooks

__all__ = ["FusedStep", "scaled_rate"]

_KINDS: Final = (torch.optim.Adam, torch.optim.AdamW)  # Not their subclasses, which may do anything
_TORCH_FOLDER: Final = str(Path(torch_optimizer.__file__).parent)  # a `step` not from there must be called
_UNSUPPORTED: Final = ("amsgrad", "maximize", "capturable", "differentiable")


@dataclass(frozen=True, slots=True)
class _Group:
    """The kernel's arguments for one parameter group; the gradients are new each time."""

    group: dict[str, Any]
    parameters: list[Tensor]
    averages: list[Tensor]
    squares: list[Tensor]
    steps: list[Tensor]  # Views of one tensor, `count`: one addition counts for all
    count: Tensor
    count_on_host: Any  # the same memory as a NumPy array: one addition costs a fifth; None: it is on a device
    kernel: Any


@final
class FusedStep:
    """Steps one optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self._groups: list[_Group] = []
        self._state: Any = None
        self._step: Any = None
        self._no_grad = torch.no_grad()  # once: to make one takes longer than to use it

    def step(self, found_inf: Tensor | None = None, rate: Tensor | None = None) -> None:
        """`found_inf`: on the device; if not 0, nothing changes. `rate`: replaces the groups' learning rate."""
        prepared = [(each, [p.grad for p in each.parameters]) for each in self.prepared()]
        if not prepared or any(gradient is None for _, gradients in prepared for gradient in gradients):
            if rate is not None:
                raise RuntimeError("A learning rate on the device needs the fused kernel, and it cannot be used here.")
            self._step_via_optimizer(found_inf)
            self._prepare()
            return
        with self._no_grad:
            for each, gradients in prepared:
                group, (beta1, beta2) = each.group, each.group["betas"]
                if each.count_on_host is None:
                    each.count.add_(1)
                else:
                    np.add(each.count_on_host, 1, out=each.count_on_host)
                each.kernel(
                    each.parameters, gradients, each.averages, each.squares, [], each.steps,
                    amsgrad=False, lr=group["lr"] if rate is None else scaled_rate(rate, group),
                    beta1=beta1, beta2=beta2, weight_decay=group["weight_decay"], eps=group["eps"], maximize=False,
                    grad_scale=None, found_inf=found_inf,
                )  # fmt: skip
                if found_inf is not None:
                    each.count.sub_(found_inf)

    def prepared(self) -> list[_Group]:
        """The kernel's arguments by parameter group; none: the optimizer must take its steps itself."""
        optimizer = self.optimizer
        unchanged = (
            self._state is optimizer.state
            and type(optimizer).step is self._step
            and "step" not in optimizer.__dict__
            and not has_step_hooks(optimizer)
        )
        return self._groups if unchanged else []

    def _step_via_optimizer(self, found_inf: Tensor | None) -> None:
        if found_inf is None:
            self.optimizer.step()
            return
        self.optimizer.found_inf = found_inf  # type: ignore[attr-defined]
        self.optimizer.grad_scale = None  # type: ignore[attr-defined]
        try:
            self.optimizer.step()
        finally:
            del self.optimizer.found_inf, self.optimizer.grad_scale  # type: ignore[attr-defined]

    def _prepare(self) -> None:
        """After the optimizer's own step, which created or loaded its state. Does nothing if a group is unsupported."""
        optimizer, state = self.optimizer, self.optimizer.state
        if type(optimizer) not in _KINDS or self._state is state:
            return
        groups, step = optimizer.param_groups, type(optimizer).step
        is_torchs = step.__code__.co_filename.startswith(_TORCH_FOLDER)
        if is_torchs and all(_is_supported(group, state) for group in groups):
            self._groups = [_arguments(group, state, optimizer) for group in groups]
            self._state, self._step = state, step


def scaled_rate(rate: Tensor, group: dict[str, Any]) -> Tensor:
    """The learning rate of a group, on the device."""
    return rate * group["lr_scale"] if "lr_scale" in group else rate


def _is_supported(group: dict[str, Any], state: Any) -> bool:
    parameters = group["params"]
    return (
        bool(group.get("fused"))
        and not any(group.get(option) for option in _UNSUPPORTED)
        and isinstance(group["lr"], float)
        and len({(p.device, p.dtype) for p in parameters}) == 1
        and all(p in state and {"step", "exp_avg", "exp_avg_sq"} <= state[p].keys() for p in parameters)
        and not any(p.is_complex() or (p.grad is not None and p.grad.is_sparse) for p in parameters)
    )


def _arguments(group: dict[str, Any], state: Any, optimizer: torch.optim.Optimizer) -> _Group:
    parameters = list(group["params"])
    count = torch.stack([state[p]["step"] for p in parameters])
    steps = list(count.unbind(0))
    for parameter, step in zip(parameters, steps, strict=True):
        state[parameter]["step"] = step
    averages, squares = ([state[p][name] for p in parameters] for name in ("exp_avg", "exp_avg_sq"))
    decoupled = isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay")
    kernel = fused_adamw_ if decoupled else fused_adam_
    on_host = count.numpy() if count.device.type == "cpu" else None
    return _Group(group, parameters, averages, squares, steps, count, on_host, kernel)
