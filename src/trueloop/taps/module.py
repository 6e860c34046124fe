"""Patches `nn.Module.__call__`: publishes the outermost calls of models, and inner ones on deep steps.

A module without parameters is not a model: its calls are published as a criterion's, and what happens inside them is
seen as outside of any model, like the same lines in a function.

The class is patched, not the model: nothing is pickled or copied with it, every module is covered, the cost is one
frame, and tracebacks are unchanged. The compiler accepts the wrapper as the usual call, so it still inlines `forward`
and compiles the same graphs; a compiled module is seen from outside.
"""

import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final

import torch
from torch import nn

from trueloop.taps.bus import Bus
from trueloop.taps.calls import InnerCall, ModuleCall
from trueloop.taps.place import UNSEEN, here
from trueloop.taps.tap import Patch, Tap, is_unwatched
from trueloop.torch_private.compiler import is_compiled, set_known_module_call
from trueloop.torch_private.modules import is_initialized, own_parameters

__all__ = ["ModuleTap"]

_LOSSES: Final = nn.CrossEntropyLoss.__module__
_FRAMES: Final = 12  # frames between a layer's call and the `forward` that was called directly


class ModuleTap(Tap):
    topics = ("module_call_started", "module_call_ended", "inner_call_ended", "criterion_started", "criterion_ended")

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._known_to_compiler: object = None
        self._number = 0
        self._watches_inner = bus.has_subscribers("inner_call_ended")
        self._latest: weakref.ref[nn.Module] | None = None  # the latest model: most calls are of the same one
        self._criteria: list[nn.Module] = []  # modules without parameters that are running, outside of a model
        self._called_directly: list[type[nn.Module]] = []  # classes whose `forward` the script calls itself

    def install(self) -> None:
        self.wake()

    def remove(self) -> None:
        self.sleep()

    def wake(self) -> None:
        if not self.patches:
            self.patches = [Patch(nn.Module, "__call__", self._wrap)]
            self.patches += [Patch(cls, "forward", self._wrap_forward) for cls in self._called_directly]
            self._known_to_compiler = set_known_module_call(self.patches[0].wrapper)

    def sleep(self) -> None:
        if self.patches:
            super().remove()
            set_known_module_call(self._known_to_compiler)

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, watches_inner = self.bus, self._watches_inner

        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if bus.call is not None and not bus.deep:  # inside a model: nearly all calls of a run
                return original(module, *args, **kwargs)
            if is_unwatched(bus) or bus.in_backward:
                return original(module, *args, **kwargs)
            if bus.call is not None:
                output = original(module, *args, **kwargs)
                if watches_inner and output is not None:
                    bus.publish("inner_call_ended", InnerCall(module, args, output))
                return output
            if not is_initialized(module):  # its class forgot super().__init__(): this call is about to raise
                return original(module, *args, **kwargs)
            if self._is_part_of_running(module):
                return original(module, *args, **kwargs)
            output, call = None, self._start(module, args, kwargs)
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._end(call, output)
            return output

        return __call__

    def _wrap_forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`model.forward(x)` is a call of the model, too."""
        bus = self.bus

        def forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if is_unwatched(bus) or bus.call is not None or bus.in_backward or self._is_part_of_running(module):
                return original(module, *args, **kwargs)
            output, call = None, self._start(module, args, kwargs)
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._end(call, output)
            return output

        return forward

    def _start(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModuleCall:
        call = ModuleCall(
            module=module,
            args=args,
            kwargs=kwargs,
            place=here(3),
            number=self._number,
            grad=torch.is_grad_enabled(),
            training=module.training,
            compiled=is_compiled(module),
            recalibration=_inside_update_bn(),
        )
        self._number += 1
        if self._is_model(module):
            self.bus.call = call
            self.bus.publish("module_call_started", call)
        else:
            self._criteria.append(module)
            self.bus.publish("criterion_started", call)
        return call

    def _end(self, call: ModuleCall, output: Any) -> None:
        call.output, call.failed = output, output is None
        if self.bus.call is call:
            self.bus.call = None
            self.bus.publish("module_call_ended", call)
        else:
            self._criteria.pop()
            self.bus.publish("criterion_ended", call)

    def _is_model(self, module: nn.Module) -> bool:
        """A module without parameters (a loss, an activation, a normalization of inputs) is a function written as a
        class: what it does is seen as if the script's own lines did it."""
        if self._latest is not None and self._latest() is module:
            return True
        if type(module).__module__ == _LOSSES and not own_parameters(module):
            return False
        model = next(module.parameters(), None) is not None or is_compiled(module) or _hides_layers(module)
        if model:
            self._latest = weakref.ref(module)
        return model

    def _is_part_of_running(self, module: nn.Module) -> bool:
        """Is it a layer of a criterion, or of a model whose `forward` was called directly?"""
        if any(part is module for criterion in self._criteria for part in criterion.modules()):
            return True
        owner = _owner_in_forward(module)
        if owner is None or "forward" in vars(owner):
            return False
        if type(owner) not in self._called_directly:  # from its next call on it is published; this one is running
            self._called_directly.append(type(owner))
            self.patches.append(Patch(type(owner), "forward", self._wrap_forward))
        return True


def _owner_in_forward(module: nn.Module) -> nn.Module | None:
    """The outermost model whose `forward` is running, and calls this part of it."""
    frame: FrameType | None = sys._getframe(3)
    owner = None
    for _ in range(_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if code.co_name == "forward" and code.co_argcount and code.co_filename != UNSEEN:
            caller = frame.f_locals.get(code.co_varnames[0])
            if isinstance(caller, nn.Module) and caller is not module and any(m is module for m in caller.modules()):
                owner = caller
        frame = frame.f_back
    return owner


def _hides_layers(module: nn.Module) -> bool:
    """Are there layers in plain lists, which `parameters()` does not know?"""
    return any(_holds_parameters(value, 3) for part in module.modules() for value in vars(part).values())


def _holds_parameters(value: object, depth: int) -> bool:
    if isinstance(value, nn.Module):
        return next(value.parameters(), None) is not None
    if isinstance(value, nn.Parameter):
        return True
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set)) else ()
    return depth > 0 and any(_holds_parameters(item, depth - 1) for item in inside)


def _inside_update_bn() -> bool:
    frame = sys._getframe(3)
    for _ in range(6):
        if frame.f_back is None:
            return False
        frame = frame.f_back
        if frame.f_code.co_name == "update_bn":
            return True
    return False
