"""AdamW for a model of many small tensors: one kernel for all of them, from a table of their addresses.

    optimizer = AdamW(model.parameters(), lr=1e-3)      # torch.optim.AdamW, its arguments, its state_dict

torch's own fused AdamW passes addresses as arguments of the kernel, some thirty tensors a launch, and sorts the
tensors by device and dtype in every step. Here the addresses lie on the device in a table that is written again only
when one of them has changed; gradients, which move more often, have a table of their own. What this kernel cannot do
(amsgrad, maximize, a learning rate that is a tensor, sparse gradients, other dtypes than float32, no GPU) is left to
torch's own step.

`OneLaunch` is the same kernel in the form of torch's fused one, for the engine: `optimizer_kernel=triton`.
"""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from trueloop.kernels.triton_here import runs_triton

__all__ = ["AdamW", "OneLaunch"]

_UNSUPPORTED = ("amsgrad", "maximize", "capturable", "differentiable", "fused")


class AdamW(torch.optim.AdamW):
    """The update of `torch.optim.AdamW`, launched once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._tables: dict[int, _Addresses] = {}
        super().__init__(*arguments, **options)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        groups = [(group, self._with_gradient(group)) for group in self.param_groups]
        if not all(_fits(group, parameters) for group, parameters in groups):
            self._count_on_cpu()
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            groups = [(group, self._with_gradient(group)) for group in self.param_groups]
        for number, (group, parameters) in enumerate(groups):
            if parameters:
                self._update(number, group, parameters)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Steps are on the CPU in it, as in torch's own: both classes read each other's."""
        kept = super().state_dict()
        states = [each for each in kept["state"].values() if "step" in each and each["step"].is_cuda]
        if states:
            steps = torch.stack([each["step"] for each in states]).cpu().unbind(0)
            changed = {id(each): {**each, "step": step} for each, step in zip(states, steps, strict=True)}
            kept["state"] = {key: changed.get(id(each), each) for key, each in kept["state"].items()}
        return kept

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._tables.clear()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._tables = {}

    def __getstate__(self) -> dict[str, Any]:
        """Addresses mean nothing in another process."""
        return {**super().__getstate__(), "_tables": {}}

    def _with_gradient(self, group: dict[str, Any]) -> list[Tensor]:
        return [parameter for parameter in group["params"] if parameter.grad is not None]

    def _update(self, number: int, group: dict[str, Any], parameters: list[Tensor]) -> None:
        self._begin(parameters)
        states = [self.state[parameter] for parameter in parameters]
        # The state, too: whoever replaces or clears it frees memory that a table of old addresses would write to.
        kept = [[state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step")]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        tables = self._tables.setdefault(number, _Addresses())
        tables.find([parameters, *kept], gradients)
        beta1, beta2 = group["betas"]
        tables.update(group["lr"], beta1, beta2, group["eps"], group["weight_decay"])
        tables.count()

    def _count_on_cpu(self) -> None:
        """Where torch's own step counts, unless an option says that it counts on the device."""
        for group in self.param_groups:
            if group.get("capturable") or group.get("fused"):
                continue
            for state in (self.state[parameter] for parameter in group["params"] if parameter in self.state):
                if state.get("step") is not None and state["step"].is_cuda:
                    state["step"] = state["step"].cpu()

    def _begin(self, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            elif state["step"].device != parameter.device:  # of torch's own step, which counts on the CPU
                state["step"] = state["step"].to(parameter.device)


@final
class OneLaunch:
    """Called like torch's fused AdamW: on lists of tensors whose steps are counted already. Of contiguous float32."""

    def __init__(
        self, parameters: list[Tensor], averages: list[Tensor], squares: list[Tensor], steps: list[Tensor]
    ) -> None:
        self._kept, self._tables = [parameters, averages, squares, steps], _Addresses()

    def __call__(
        self, *lists: list[Tensor], lr: float, beta1: float, beta2: float, weight_decay: float, eps: float,
        found_inf: Tensor | None = None, **_: Any,
    ) -> None:  # fmt: skip
        """`found_inf`: on the device; if not 0, nothing changes."""
        self._tables.find(self._kept, [each if each.is_contiguous() else each.contiguous() for each in lists[1]])
        self._tables.update(lr, beta1, beta2, eps, weight_decay, ahead=0.0, found_inf=found_inf)


@final
class _Addresses:
    """Tables on the device, written again when a tensor has moved."""

    def __init__(self) -> None:
        self._known: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        self._table: Any = None
        self._gradients: Any = None

    def find(self, kept: list[list[Tensor]], gradients: list[Tensor]) -> None:
        """`kept`: parameters, averages, squares, steps."""
        from trueloop.kernels import adamw_triton as fused  # only here: it needs Triton

        now = tuple([each.data_ptr() for tensors in kept for each in tensors])
        slopes = tuple([each.data_ptr() for each in gradients])
        if now != self._known[0] or self._table is None:
            self._table = fused.table(*kept)
        if slopes != self._known[1] or self._gradients is None:
            self._gradients = fused.addresses(slopes, gradients[0].device)
        self._known = now, slopes

    def update(
        self, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, ahead: float = 1.0,
        found_inf: Tensor | None = None,
    ) -> None:  # fmt: skip
        from trueloop.kernels import adamw_triton as fused

        numbers = fused.Numbers(lr, beta1, beta2, eps, weight_decay, ahead)
        fused.update(self._table, self._gradients, numbers, found_inf)

    def count(self) -> None:
        from trueloop.kernels import adamw_triton as fused

        fused.count(self._table)


def _fits(group: dict[str, Any], parameters: list[Tensor]) -> bool:
    if any(group.get(option) for option in _UNSUPPORTED) or isinstance(group["lr"], Tensor):
        return False
    return all(_plain(each) and each.grad is not None and _plain(each.grad) for each in parameters) and (
        not parameters or (runs_triton(parameters[0], "AdamW") and len({each.device for each in parameters}) == 1)
    )


def _plain(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and not tensor.is_sparse and tensor.is_contiguous()
