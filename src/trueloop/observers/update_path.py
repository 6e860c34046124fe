"""How an optimizer updates its parameters on a device: all at once, or one by one. Emitted once, after its first
step."""

from __future__ import annotations

from trueloop.event import UpdatePath
from trueloop.observers.observer import Observer
from trueloop.taps.calls import StepCall

__all__ = ["UpdatePathObserver"]


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
        alone = [
            len(held)
            for held, group in zip(moved, groups, strict=True)
            if group.get("foreach") is False and not group.get("fused")
        ]
        known = self.objects.optimizer(call.optimizer)
        self.emit(
            UpdatePath,
            known.place or call.place,
            optimizer=known.number,
            name=known.name,
            device=tensors[0].device.type,
            tensors=len(tensors),
            one_by_one=sum(alone),
            differentiable=any(group.get("differentiable") for group in groups),
        )
