"""Patches GradScaler: notes it on the node of a scaled loss, and publishes each step and whether it was skipped."""

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from trueloop.taps.calls import BuiltScaler, ScalerStep, ScalerUpdate, UnscaleCall
from trueloop.taps.graph_notes import SCALED, SCALER_OFF, write_note
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_logged, is_unwatched
from trueloop.torch_private.optimizers import unscales_in_step
from trueloop.torch_private.tensors import tensor_version

__all__ = ["ScalerTap"]


class ScalerTap(Tap):
    topics = (
        "backward_started", "schedule_stepped", "unscale_started", "unscale_ended", "scaler_built", "scaler_stepped",
        "scaler_updated",
    )  # fmt: skip

    def install(self) -> None:
        wraps = {"scale": self._wrap_scale, "unscale_": self._wrap_unscale}
        if self.bus.has_subscribers("scaler_built", "scaler_stepped", "scaler_updated"):
            wraps |= {"__init__": self._wrap_init, "step": self._wrap_step, "update": self._wrap_update}
        self.patches = [Patch(GradScaler, name, wrap) for name, wrap in wraps.items()]

    def _wrap_init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(scaler: GradScaler, *args: Any, **kwargs: Any) -> None:
            original(scaler, *args, **kwargs)
            if not is_unwatched(self.bus):
                self.bus.publish("scaler_built", BuiltScaler(scaler, here(2)))

        return __init__

    def _wrap_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: GradScaler, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            if is_logged(self.bus) or not is_unwatched(self.bus):
                on = scaler.is_enabled()
                self.bus.scaler_used = self.bus.scaler_used or on
                for loss in scaled if isinstance(scaled, (list, tuple)) else (scaled,):
                    if isinstance(loss, Tensor):
                        write_note(loss, SCALED if on else SCALER_OFF, weakref.ref(scaler))
            return scaled

        return scale

    def _wrap_unscale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unscale_(scaler: GradScaler, optimizer: Optimizer) -> Any:
            if is_unwatched(self.bus) or not scaler.is_enabled():
                return original(scaler, optimizer)
            call = UnscaleCall(optimizer, here(2))
            self.bus.publish("unscale_started", call)
            result = original(scaler, optimizer)
            self.bus.publish("unscale_ended", call)
            return result

        return unscale_

    def _wrap_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def step(scaler: GradScaler, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if is_unwatched(bus) or not scaler.is_enabled():
                return original(scaler, optimizer, *args, **kwargs)
            taken, version = bus.step, _version(optimizer)
            result = original(scaler, optimizer, *args, **kwargs)
            hidden = unscales_in_step(optimizer)
            skipped = None if hidden else bus.step == taken and _version(optimizer) == version
            bus.publish("scaler_stepped", ScalerStep(scaler, optimizer, here(2), skipped))
            return result

        return step

    def _wrap_update(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def update(scaler: GradScaler, *args: Any, **kwargs: Any) -> Any:
            result = original(scaler, *args, **kwargs)
            if not is_unwatched(self.bus) and scaler.is_enabled():
                self.bus.publish("scaler_updated", ScalerUpdate(scaler))
            return result

        return update


def _version(optimizer: Optimizer) -> int:
    """Version of the first parameter with a gradient: hooks do not count a compiled step, but it changes this."""
    parameters = (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None)
    first = next(parameters, None)
    return -1 if first is None else int(tensor_version(first))
