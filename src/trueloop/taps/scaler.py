"""Gradient scalers: a scaled loss is marked in its graph node, and the wire knows that steps may be skipped."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from trueloop.taps.moment import UnscaleCall
from trueloop.taps.note import SCALED, write_note
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, passes_by
from trueloop.taps.wire import Wire

__all__ = ["ScalerTap"]


class ScalerTap(Tap):
    moments = ("backward_started", "schedule_stepped", "unscale_started", "unscale_ended")

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._patches: list[Patch] = []

    def install(self) -> None:
        self._patches = [Patch(GradScaler, "scale", self._wrap_scale), Patch(GradScaler, "unscale_", self._wrap_unscale)]

    def remove(self) -> None:
        for patch in self._patches:
            patch.undo()

    def _wrap_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: GradScaler, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            if not passes_by(self.wire) and scaler.is_enabled():
                self.wire.scaler_used = True
                if isinstance(scaled, Tensor):
                    write_note(scaled, SCALED, weakref.ref(scaler))
            return scaled

        return scale

    def _wrap_unscale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unscale_(scaler: GradScaler, optimizer: Optimizer) -> Any:
            if passes_by(self.wire) or not scaler.is_enabled():
                return original(scaler, optimizer)
            call = UnscaleCall(optimizer, here(2))
            self.wire.tell("unscale_started", call)
            result = original(scaler, optimizer)
            self.wire.tell("unscale_ended", call)
            return result

        return unscale_
