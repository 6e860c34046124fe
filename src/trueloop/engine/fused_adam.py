"""Adam's and AdamW's own fused kernel, called straight: the same bits as `optimizer.step()`, without the ceremony
around it.

`optimizer.step()` gathers its tensors, groups them by device and type, asks a profiler and a compiler and counts one
step per parameter, each time anew. On a small model that costs as much as the update. Here the gathering is done once;
whenever something is not as it was (a gradient is missing, somebody listens to the optimizer's steps, its state was
loaded), the optimizer takes the step itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.optim import optimizer as torch_optimizer

__all__ = ["FusedStep", "scaled_rate"]
from trueloop.torch_private.foreach import fused_adam_, fused_adamw_
from trueloop.torch_private.optimizers import has_step_hooks

_KINDS: Final = (torch.optim.Adam, torch.optim.AdamW)
"""Whose kernel is known here; of a class made from them, nothing is."""
_TORCHS: Final = str(Path(torch_optimizer.__file__).parent)
"""Where torch's own steps are written: one that somebody has put in their place must be called."""
_REFUSED: Final = ("amsgrad", "maximize", "capturable", "differentiable")
"""Options that ask more of a step than is done here."""


@dataclass(frozen=True, slots=True)
class _Gathered:
    """What the kernel takes of one group; the gradients are new each time."""

    group: dict[str, Any]
    parameters: list[Tensor]
    averages: list[Tensor]
    squares: list[Tensor]
    steps: list[Tensor]
    """Views of one tensor, `count`: one addition counts for all."""
    count: Tensor
    kernel: Any


@final
class FusedStep:
    """Steps one optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self._known = type(optimizer) in _KINDS
        self._groups: list[_Gathered] = []
        self._state: Any = None
        self._step: Any = None

    def step(self, found_inf: Tensor | None = None, rate: Tensor | None = None) -> None:
        """`found_inf`: a number on the device; if it is not 0, nothing is changed. `rate`: another in place of the
        groups' own."""
        gathered = [(each, [p.grad for p in each.parameters]) for each in self._groups] if self._as_it_was() else []
        if not gathered or any(gradient is None for _, gradients in gathered for gradient in gradients):
            if rate is not None:
                raise RuntimeError("A rate on the device needs a step that can be called straight.")
            self._ceremony(found_inf)
            self._gather()
            return
        with torch.no_grad():
            for each, gradients in gathered:
                group, (beta1, beta2) = each.group, each.group["betas"]
                each.count.add_(1)
                each.kernel(
                    each.parameters, gradients, each.averages, each.squares, [], each.steps,
                    amsgrad=False, lr=group["lr"] if rate is None else scaled_rate(rate, group), beta1=beta1, beta2=beta2,
                    weight_decay=group["weight_decay"], eps=group["eps"], maximize=False, grad_scale=None, found_inf=found_inf,
                )  # fmt: skip
                if found_inf is not None:
                    each.count.sub_(found_inf)

    def gathered(self) -> list[_Gathered]:
        """What the kernel takes, group by group; none: the optimizer must take its steps itself."""
        return self._groups if self._as_it_was() else []

    def _as_it_was(self) -> bool:
        optimizer = self.optimizer
        return (
            self._state is optimizer.state
            and type(optimizer).step is self._step
            and "step" not in optimizer.__dict__
            and not has_step_hooks(optimizer)
        )

    def _ceremony(self, found_inf: Tensor | None) -> None:
        if found_inf is None:
            self.optimizer.step()
            return
        self.optimizer.found_inf = found_inf  # type: ignore[attr-defined]
        self.optimizer.grad_scale = None  # type: ignore[attr-defined]
        try:
            self.optimizer.step()
        finally:
            del self.optimizer.found_inf, self.optimizer.grad_scale  # type: ignore[attr-defined]

    def _gather(self) -> None:
        """After a step of the optimizer's own, which has made or loaded its state. Nothing is gathered if a group is
        not plain."""
        if not self._known or self._state is self.optimizer.state:
            return
        groups, step = self.optimizer.param_groups, type(self.optimizer).step
        if step.__code__.co_filename.startswith(_TORCHS) and all(
            _is_plain(group, self.optimizer.state) for group in groups
        ):
            self._groups = [_gathered(group, self.optimizer.state, self.optimizer) for group in groups]
            self._state, self._step = self.optimizer.state, step


def scaled_rate(rate: Tensor, group: dict[str, Any]) -> Tensor:
    """A rate on the device, as the group wants it."""
    return rate * group["lr_scale"] if "lr_scale" in group else rate


def _is_plain(group: dict[str, Any], state: Any) -> bool:
    parameters = group["params"]
    return (
        bool(group.get("fused"))
        and not any(group.get(option) for option in _REFUSED)
        and isinstance(group["lr"], float)
        and len({(p.device, p.dtype) for p in parameters}) == 1
        and all({"step", "exp_avg", "exp_avg_sq"} <= state[p].keys() for p in parameters if p in state)
        and all(p in state for p in parameters)
        and not any(p.is_complex() or (p.grad is not None and p.grad.is_sparse) for p in parameters)
    )


def _gathered(group: dict[str, Any], state: Any, optimizer: torch.optim.Optimizer) -> _Gathered:
    parameters = list(group["params"])
    count = torch.stack([state[p]["step"] for p in parameters])
    steps = list(count.unbind(0))
    for parameter, step in zip(parameters, steps, strict=True):
        state[parameter]["step"] = step
    averages, squares = ([state[p][name] for p in parameters] for name in ("exp_avg", "exp_avg_sq"))
    kernel = (
        fused_adamw_ if isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay") else fused_adam_
    )
    return _Gathered(group, parameters, averages, squares, steps, count, kernel)
