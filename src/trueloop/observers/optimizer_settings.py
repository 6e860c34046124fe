"""Weight decay of an optimizer at its first step (groups may have changed since it was built), and how it updates its
parameters on a device: all at once, or one by one."""

from typing import Any

from torch import Tensor
from torch.optim import Adam

from trueloop.event import DecaySeen, UpdatePath
from trueloop.observers.observer import Observer
from trueloop.taps.calls import StepCall

__all__ = ["UpdatePathObserver", "WeightDecayObserver"]


class WeightDecayObserver(Observer):
    emits = (DecaySeen,)
    safe_on_shards = True

    def step_started(self, call: StepCall) -> None:
        if call.index:
            return
        groups = call.optimizer.param_groups
        decays = tuple(_number(group.get("weight_decay")) for group in groups)
        if not any(decay > 0 for decay in decays):
            return
        known = self.objects.optimizer(call.optimizer)
        # AdamW inherits from Adam, and a user's subclass may decay in its own way
        folded = type(call.optimizer) is Adam and not any(g.get("decoupled_weight_decay", False) for g in groups)
        rates = tuple(_number(group.get("lr")) for group in groups)
        self.emit(DecaySeen, known.place, known.number, known.name, decays, folded, rates)


def _number(value: Any) -> float:
    """A setting; None for a tensor on a device, which the host would have to wait for."""
    return 0.0 if value is None or (isinstance(value, Tensor) and not value.is_cpu) else float(value)


class UpdatePathObserver(Observer):
    emits = (UpdatePath,)

    def step_ended(self, call: StepCall) -> None:
        if call.index:
            return
        groups = call.optimizer.param_groups
        moved = [[p for p in group["params"] if p.grad is not None and not p.is_cpu] for group in groups]
        tensors = [parameter for group in moved for parameter in group]
        if not tensors:
            return
        pairs = zip(moved, groups, strict=True)
        alone = [len(held) for held, g in pairs if g.get("foreach") is False and not g.get("fused")]
        known = self.objects.optimizer(call.optimizer)
        device, differentiable = tensors[0].device.type, any(group.get("differentiable") for group in groups)
        counts = (len(tensors), sum(alone))
        self.emit(UpdatePath, known.place or call.place, known.number, known.name, device, *counts, differentiable)
