"""Gradient scalers: a scaled loss is marked in its graph node, and the wire knows that steps may be skipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.amp import GradScaler

from trueloop.taps.note import SCALED, write_note
from trueloop.taps.tap import Patch, Tap, passes_by
from trueloop.taps.wire import Wire

__all__ = ["ScalerTap"]


class ScalerTap(Tap):
    moments = ("backward_started", "schedule_stepped")

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._patches: list[Patch] = []

    def install(self) -> None:
        self._patches = [Patch(GradScaler, "scale", self._wrap_scale)]

    def remove(self) -> None:
        for patch in self._patches:
            patch.undo()

    def _wrap_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: GradScaler, outputs: Any) -> Any:
            scaled = original(scaler, outputs)
            if not passes_by(self.wire) and scaler.is_enabled():
                self.wire.scaler_used = True
                if isinstance(scaled, Tensor):
                    write_note(scaled, SCALED, True)
            return scaled

        return scale
