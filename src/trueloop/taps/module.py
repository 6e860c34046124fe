"""Patches `nn.Module.__call__`: publishes the outermost calls, and inner ones on deep steps.

The class is patched, not the model: nothing is pickled or copied with it, every module is covered, the cost is one
frame, and tracebacks are unchanged. The compiler accepts the wrapper as the usual call, so it still inlines `forward`
and compiles the same graphs; a compiled module is seen from outside.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn

from trueloop.taps.bus import Bus
from trueloop.taps.calls import InnerCall, ModuleCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_unwatched
from trueloop.torch_private.compiler import is_compiled, set_known_module_call
from trueloop.torch_private.modules import is_initialized, own_parameters

__all__ = ["ModuleTap"]

_LOSSES: Final = nn.CrossEntropyLoss.__module__


class ModuleTap(Tap):
    topics = ("module_call_started", "module_call_ended", "inner_call_ended")

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._known_to_compiler: object = None
        self._number = 0
        self._watches_inner = bus.has_subscribers("inner_call_ended")

    def install(self) -> None:
        self.wake()

    def remove(self) -> None:
        self.sleep()

    def wake(self) -> None:
        if not self.patches:
            self.patches = [Patch(nn.Module, "__call__", self._wrap)]
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
            output = None
            self._start(module, args, kwargs)
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._end(output)
            return output

        return __call__

    def _start(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
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
        self.bus.call = call
        self.bus.publish("module_call_started", call, loss_module=_is_loss(module))

    def _end(self, output: Any) -> None:
        call, self.bus.call = self.bus.call, None
        if call is not None:
            call.output, call.failed = output, output is None
            self.bus.publish("module_call_ended", call, loss_module=_is_loss(call.module))


def _is_loss(module: nn.Module) -> bool:
    """One of torch's own loss modules, without a parameter that the user has added."""
    return type(module).__module__ == _LOSSES and not own_parameters(module)


def _inside_update_bn() -> bool:
    frame = sys._getframe(3)
    for _ in range(6):
        if frame.f_back is None:
            return False
        frame = frame.f_back
        if frame.f_code.co_name == "update_bn":
            return True
    return False
