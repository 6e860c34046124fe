"""Weights taken (`state_dict`), put back (`load_state_dict`) and written (`torch.save`). Told also while the wire sleeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from trueloop.taps.moment import StateLoad, StateSave, StateTaken
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap
from trueloop.taps.wire import Wire

__all__ = ["StateTap"]


class StateTap(Tap):
    moments = ("state_taken", "state_loading", "state_saving")

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._patches: list[Patch] = []
        self._inside = False

    def install(self) -> None:
        self._patches = [
            Patch(nn.Module, "state_dict", self._wrap_take),
            Patch(nn.Module, "load_state_dict", self._wrap_load),
            Patch(torch, "save", self._wrap_save),
        ]

    def remove(self) -> None:
        for patch in self._patches:
            patch.undo()

    def _quiet(self) -> bool:
        return torch.compiler.is_compiling() or self._inside or self.wire.busy

    def _wrap_take(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def state_dict(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._quiet():
                return original(module, *args, **kwargs)
            self._inside = True  # it calls itself for each child
            try:
                state = original(module, *args, **kwargs)
            finally:
                self._inside = False
            self.wire.tell("state_taken", StateTaken(module, state, here(2)))
            return state

        return state_dict

    def _wrap_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(module: nn.Module, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
            if self._quiet():
                return original(module, state_dict, *args, **kwargs)
            self.wire.tell("state_loading", StateLoad(module, state_dict, here(2)))
            return original(module, state_dict, *args, **kwargs)

        return load_state_dict

    def _wrap_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._quiet():
                self.wire.tell("state_saving", StateSave(obj, f, here(2)))
            return original(obj, f, *args, **kwargs)

        return save
