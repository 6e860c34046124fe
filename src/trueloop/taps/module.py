"""Calls of modules: the outermost always, inner ones on deep steps.

Global hooks, because they live outside the model (nothing of ours is pickled or copied with it) and see every module.
They would split a compiled graph, so they give way when torch.compile is used; then only compiled modules are seen, from outside.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from trueloop.taps.moment import InnerCall, ModuleCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, passes_by
from trueloop.taps.wire import Wire

__all__ = ["ModuleTap"]


class ModuleTap(Tap):
    moments = ("module_call_started", "module_call_ended", "inner_call_ended")

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._handles: list[Any] = []
        self._patches: list[Patch] = []
        self._stack: list[nn.Module] = []
        self._number = 0
        self._thread = get_ident()
        self._hears_inner = wire.hears("inner_call_ended")
        self._compiling = False

    def install(self) -> None:
        self._patches = [Patch(torch, "compile", self._wrap_compile), Patch(nn.Module, "compile", self._wrap_compile_in_place)]
        self.wake()

    def remove(self) -> None:
        self.sleep()
        for patch in self._patches:
            patch.undo()

    def sleep(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.clear()

    def wake(self) -> None:
        if not self._handles and not self._compiling:
            self._handles = [
                register_module_forward_pre_hook(self._before),
                register_module_forward_hook(self._after, with_kwargs=True, always_call=True),
            ]

    # -- eager modules --

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        wire = self.wire
        if wire.busy or wire.in_backward or get_ident() != self._thread:
            return
        self._stack.append(module)
        if len(self._stack) == 1:
            kwargs = sys._getframe(1).f_locals.get("kwargs")
            self._start(module, args, kwargs if isinstance(kwargs, dict) else {}, compiled=False)

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        wire = self.wire
        if wire.busy or wire.in_backward or get_ident() != self._thread or module not in self._stack:
            return
        while self._stack.pop() is not module:
            pass
        if not self._stack:
            self._end(kwargs, output)
        elif self._hears_inner and wire.deep and output is not None:
            wire.tell("inner_call_ended", InnerCall(module, args, output))

    def _start(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, compiled: bool) -> None:
        call = ModuleCall(
            module=module,
            args=args,
            kwargs=kwargs,
            place=here(3),
            number=self._number,
            grad=torch.is_grad_enabled(),
            training=module.training,
            compiled=compiled,
            recalibration=_inside_update_bn(),
        )
        self._number += 1
        self.wire.call = call
        self.wire.tell("module_call_started", call)

    def _end(self, kwargs: Mapping[str, Any], output: Any) -> None:
        call, self.wire.call = self.wire.call, None
        if call is not None:
            call.kwargs, call.output, call.failed = kwargs, output, output is None
            self.wire.tell("module_call_ended", call)

    # -- compiled modules --

    def _wrap_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            if not passes_by(self.wire):
                self._give_way()
            return original(*args, **kwargs)

        return compile

    def _wrap_compile_in_place(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not passes_by(self.wire):
                self._give_way()
            return original(module, *args, **kwargs)

        return compile

    def _give_way(self) -> None:
        """Take the global hooks out for good, and watch compiled modules from outside."""
        if self._compiling:
            return
        self.sleep()
        self._compiling = True
        from torch._dynamo.eval_frame import OptimizedModule

        self._patches.append(Patch(OptimizedModule, "__call__", self._wrap_compiled_call))

    def _wrap_compiled_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if passes_by(self.wire) or self.wire.in_backward or self.wire.call is not None:
                return original(module, *args, **kwargs)
            self._start(module, args, kwargs, compiled=True)
            output = None
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._end(kwargs, output)
            return output

        return __call__


def _inside_update_bn() -> bool:
    frame = sys._getframe(3)
    for _ in range(6):
        if frame.f_back is None:
            return False
        frame = frame.f_back
        if frame.f_code.co_name == "update_bn":
            return True
    return False
