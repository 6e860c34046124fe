"""Weights taken (`state_dict`), put back (`load_state_dict`), written (`torch.save`) and read (`torch.load`).

Told also while the bus sleeps.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from trueloop.taps.bus import Bus
from trueloop.taps.calls import FileRead, Restored, StateLoad, StateSave, StateTaken
from trueloop.taps.place import here, is_direct
from trueloop.taps.tap import Patch, Tap

__all__ = ["StateDictTap"]


class StateDictTap(Tap):
    topics = ("state_taken", "state_loading", "state_saving", "state_saved", "file_read", "state_restored")

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._inside = False

    def install(self) -> None:
        self.patches = [
            Patch(nn.Module, "state_dict", self._wrap_take),
            Patch(nn.Module, "load_state_dict", self._wrap_load),
            Patch(torch, "save", self._wrap_save),
        ]
        if self.bus.has_subscribers("file_read", "state_restored"):
            self.patches += [
                Patch(torch, "load", self._wrap_read),
                Patch(torch, "set_rng_state", lambda original: self._wrap_restore(original, "random")),
                Patch(torch.random, "set_rng_state", lambda original: self._wrap_restore(original, "random")),
                Patch(GradScaler, "load_state_dict", lambda original: self._wrap_restore(original, "scaler")),
                Patch(Optimizer, "load_state_dict", lambda original: self._wrap_restore(original, "optimizer")),
            ]

    def _quiet(self) -> bool:
        return torch.compiler.is_compiling() or self._inside or self.bus.busy

    def _wrap_take(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def state_dict(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._quiet():
                return original(module, *args, **kwargs)
            self._inside = True  # it calls itself for each child
            try:
                state = original(module, *args, **kwargs)
            finally:
                self._inside = False
            self.bus.publish("state_taken", StateTaken(module, state, here(2)))
            return state

        return state_dict

    def _wrap_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(module: nn.Module, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
            if self._quiet() or not _is_state(state_dict):
                return original(module, state_dict, *args, **kwargs)
            strict = bool(args[0] if args else kwargs.get("strict", True))
            self.bus.publish("state_loading", StateLoad(module, state_dict, here(2), is_direct(), strict))
            return original(module, state_dict, *args, **kwargs)

        return load_state_dict

    def _wrap_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save(obj: object, f: Any, *args: Any, **kwargs: Any) -> Any:
            if self._quiet():
                return original(obj, f, *args, **kwargs)
            call = StateSave(obj, f, here(2), is_direct())
            self.bus.publish("state_saving", call)
            result = original(obj, f, *args, **kwargs)
            self.bus.publish("state_saved", call)
            return result

        return save

    def _wrap_read(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(f: Any, map_location: Any = None, pickle_module: Any = None, **kwargs: Any) -> Any:
            value = original(f, map_location, pickle_module, **kwargs)
            if not self._quiet():
                asked = kwargs.get("weights_only")
                unsafe = asked is False or (asked is None and pickle_module is not None)
                self.bus.publish("file_read", FileRead(value, f, unsafe, here(2), is_direct()))
            return value

        return load

    def _wrap_restore(
        self, original: Callable[..., Any], kind: Literal["scaler", "random", "optimizer"]
    ) -> Callable[..., Any]:
        def restore(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not self._quiet() and is_direct():
                self.bus.publish("state_restored", Restored(kind, args[0] if args else None))
            return result

        return restore


def _is_state(state: object) -> bool:
    """Otherwise torch refuses it: a path, a model, an optimizer's state with numbers for names."""
    return isinstance(state, Mapping) and all(isinstance(name, str) for name in state)
