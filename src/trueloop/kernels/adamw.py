"""AdamW for a model of many small tensors: one kernel for all of them, from a table of their addresses.

    optimizer = AdamW(model.parameters(), lr=1e-3)      # torch.optim.AdamW, its arguments, its state_dict

torch's own fused AdamW passes addresses as arguments of the kernel, some thirty tensors a launch, and sorts the
tensors by device and dtype in every step. Here the addresses lie on the device in a table that is written again only
when one of them has changed; gradients, which move more often, have a table of their own. What this kernel cannot do
(amsgrad, maximize, a learning rate that is a tensor, sparse gradients, other dtypes than float32, no GPU) is left to
torch's own step.

The engine does not use it: it calls torch's fused kernel directly, without `step`'s own work, and that is faster still.
"""

from collections.abc import Callable
from operator import attrgetter, is_, itemgetter
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.kernels.triton_here import runs_triton

__all__ = ["AdamW"]

_STATE: Final = itemgetter("exp_avg"), itemgetter("exp_avg_sq"), itemgetter("step")
_ADDRESS: Final = Tensor.data_ptr
_GRADIENT: Final = attrgetter("grad")
_SPARSE: Final = attrgetter("is_sparse")
_UNSUPPORTED: Final = ("amsgrad", "maximize", "capturable", "differentiable", "fused")


class AdamW(torch.optim.AdamW):
    """The update of `torch.optim.AdamW`, launched once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._groups: list[_Group] = []  # Of the last step; empty: there was none of ours
        self._states: list[dict[str, Any]] = []
        super().__init__(*arguments, **options)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
            self.step()
            return loss
        if not self._unchanged() and not self._prepare():
            self._count_on_cpu()
            return super().step()
        for group, kept in zip(self.param_groups, self._groups, strict=True):
            if kept.gradients:
                beta1, beta2 = group["betas"]
                kept.launch.update(kept.gradients, group["lr"], beta1, beta2, group["eps"], group["weight_decay"])
                kept.launch.count()
        return None

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
        self._groups = []

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._groups, self._states = [], []

    def __getstate__(self) -> dict[str, Any]:
        """Addresses mean nothing in another process."""
        return {**super().__getstate__(), "_groups": [], "_states": []}

    def _unchanged(self) -> bool:
        """Is everything but the values as in the last step? Asked in every step, of thousands of tensors: by identity,
        in C, without a hash. The state, too: whoever replaces or clears it frees what an old table points to."""
        states = self.state.values()
        return (
            len(self._groups) == len(self.param_groups)
            and len(self._states) == len(states)
            and all(map(is_, states, self._states))
            and all(kept.is_still(group) for group, kept in zip(self.param_groups, self._groups, strict=True))
        )

    def _prepare(self) -> bool:
        """Whether this kernel can take the step."""
        self._groups = []
        groups = [(group, self._with_gradient(group)) for group in self.param_groups]
        if not all(_fits(group, parameters) for group, parameters in groups):
            return False
        for _, parameters in groups:
            self._begin(parameters)
            self._groups.append(_Group(parameters, [self.state[each] for each in parameters]))
        self._states = list(self.state.values())
        return all(kept.is_still(group) for group, kept in zip(self.param_groups, self._groups, strict=True))

    def _with_gradient(self, group: dict[str, Any]) -> list[Tensor]:
        return [parameter for parameter in group["params"] if parameter.grad is not None]

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
class _Group:
    """What a table of addresses was made from. It holds its tensors, so that their memory cannot be freed."""

    def __init__(self, parameters: list[Tensor], states: list[dict[str, Any]]) -> None:
        self.parameters, self.states = parameters, states
        self.kept = [list(map(get, states)) for get in _STATE]
        self.gradients: list[Tensor] = []  # Of this step
        self.launch = _Launch(parameters, *self.kept)

    def is_still(self, group: dict[str, Any]) -> bool:
        """Has the group the same parameters with gradients, the same state, and options of this kernel? Its gradients
        are taken then."""
        parameters = group["params"]
        gradients = list(map(_GRADIENT, parameters))
        self.gradients = [each for each in gradients if each is not None]
        if len(self.gradients) < len(gradients):
            parameters = [each for each, slope in zip(parameters, gradients, strict=True) if slope is not None]
        return (
            len(parameters) == len(self.parameters)
            and all(map(is_, parameters, self.parameters))
            and all(all(map(is_, map(get, self.states), own)) for get, own in zip(_STATE, self.kept, strict=True))
            and not any(group.get(option) for option in _UNSUPPORTED)
            and not isinstance(group["lr"], Tensor)
            and not any(map(_SPARSE, self.gradients))
            and all(map(Tensor.is_contiguous, self.gradients))
        )


@final
class _Launch:
    """Tables on the device, written again when a parameter or a gradient has moved."""

    def __init__(
        self, parameters: list[Tensor], averages: list[Tensor], squares: list[Tensor], steps: list[Tensor]
    ) -> None:
        self._kept = parameters, averages, squares, steps
        self._parameters: list[int] | None = None
        self._gradients: list[int] | None = None
        self._table: Any = None
        self._slopes: Any = None

    def update(
        self, gradients: list[Tensor], lr: float, beta1: float, beta2: float, eps: float, weight_decay: float
    ) -> None:
        from trueloop.kernels import adamw_triton as fused  # only here: it needs Triton

        parameters, slopes = list(map(_ADDRESS, self._kept[0])), list(map(_ADDRESS, gradients))
        if parameters != self._parameters:
            self._table, self._parameters = fused.table(*self._kept), parameters
        if slopes != self._gradients:
            self._slopes, self._gradients = fused.addresses(slopes, gradients[0].device), slopes
        fused.update(self._table, self._slopes, fused.Numbers(lr, beta1, beta2, eps, weight_decay))

    def count(self) -> None:
        """Each step goes up by one."""
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
