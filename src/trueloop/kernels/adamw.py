"""AdamW for a model of many small tensors: one kernel for all of them, from a table of their addresses.

    optimizer = AdamW(model.parameters(), lr=1e-3)      # torch.optim.AdamW, its arguments, its state_dict

torch's own fused AdamW passes addresses as arguments of the kernel, some hundred tensors a launch, and sorts the
tensors by device and dtype in every step. Here the addresses lie on the device in a table that is written again only
when one of them has changed. What this kernel cannot do (amsgrad, maximize, a learning rate that is a tensor, sparse
gradients, other dtypes than float32, no GPU) is left to torch's own step.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trueloop.kernels.triton_here import runs_triton

__all__ = ["AdamW"]

_UNSUPPORTED = ("amsgrad", "maximize", "capturable", "differentiable", "fused")


class AdamW(torch.optim.AdamW):
    """The update of `torch.optim.AdamW`, launched once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._tables: dict[int, tuple[tuple[int, ...], Any]] = {}
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
        from trueloop.kernels import adamw_triton as fused  # only here: it needs Triton

        self._begin(parameters)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        states = [self.state[parameter] for parameter in parameters]
        kept = [state[name] for name in ("step", "exp_avg", "exp_avg_sq") for state in states]
        # The state, too: whoever replaces or clears it frees memory that a table of old addresses would write to.
        addresses = tuple(each.data_ptr() for each in (*parameters, *gradients, *kept))
        known = self._tables.get(number)
        if known is None or known[0] != addresses:
            self._tables[number] = known = addresses, fused.table(parameters, gradients, states)
        beta1, beta2 = group["betas"]
        fused.update(known[1], group["lr"], beta1, beta2, group["eps"], group["weight_decay"])

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


def _fits(group: dict[str, Any], parameters: list[Tensor]) -> bool:
    if any(group.get(option) for option in _UNSUPPORTED) or isinstance(group["lr"], Tensor):
        return False
    return all(_plain(each) and each.grad is not None and _plain(each.grad) for each in parameters) and (
        not parameters or (runs_triton(parameters[0], "AdamW") and len({each.device for each in parameters}) == 1)
    )


def _plain(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and not tensor.is_sparse and tensor.is_contiguous()
