"""Patches torch.autograd.backward, which Tensor.backward calls too, and torch.autograd.grad."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trueloop.taps.bus import Bus
from trueloop.taps.calls import BackwardCall, OperationCall
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_logged, is_unwatched
from trueloop.torch_private.optimizers import steps_running

__all__ = ["BackwardTap"]


class BackwardTap(Tap):
    topics = ("backward_started", "backward_ended", "gradients_taken", "module_call_ended")
    # needed for module calls too: a forward that activation checkpointing recomputes is not a real one

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._number = 0

    def install(self) -> None:
        wraps = {"backward": self._wrap_backward, "grad": self._wrap_grad}
        self.patches = [Patch(torch.autograd, name, wrap) for name, wrap in wraps.items()]

    def _call(self, tensors: object, gradients: object, retain: bool | None, create: bool) -> BackwardCall:
        self._number += 1
        return BackwardCall(
            tensors=_as_tuple(tensors),
            gradients=None if gradients is None else _as_tuple(gradients),
            retain_graph=retain,
            create_graph=create,
            place=here(3),
            number=self._number - 1,
            inside_step=self.bus.in_step > 0 and steps_running() > 0,
        )

    def _wrap_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def backward(
            tensors: Any,
            grad_tensors: Any = None,
            retain_graph: bool | None = None,
            create_graph: bool = False,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            logged = is_logged(bus) and not bus.in_backward
            if logged and bus.step_log is not None:
                bus.step_log.backward(tensors, grad_tensors)
            if not bus.awake and logged:
                bus.in_backward = True  # a backward inside this one is not another loss
                try:
                    return original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)
                finally:
                    bus.in_backward = False
            if bus.in_backward or is_unwatched(bus):
                return original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)
            call = self._call(tensors, grad_tensors, retain_graph, create_graph)
            bus.publish("backward_started", call)
            bus.in_backward = True
            try:
                result = original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)
            finally:
                bus.in_backward = False
            bus.publish("backward_ended", call)
            bus.count_backward()
            return result

        return backward

    def _wrap_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def grad(
            outputs: Any,
            inputs: Any,
            grad_outputs: Any = None,
            retain_graph: bool | None = None,
            create_graph: bool = False,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            if is_unwatched(bus) or bus.in_backward:
                return original(outputs, inputs, grad_outputs, retain_graph, create_graph, *args, **kwargs)
            bus.publish("gradients_taken", self._call(outputs, grad_outputs, retain_graph, create_graph))
            bus.in_backward = True
            try:
                result = original(outputs, inputs, grad_outputs, retain_graph, create_graph, *args, **kwargs)
            finally:
                bus.in_backward = False
            if bus.recording:  # a function mode does not see it
                options = {"create_graph": bool(create_graph)}
                bus.publish("operation_ended", OperationCall("grad", (outputs, inputs), options, result, here(2)))
            return result

        return grad


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) or not isinstance(value, Sequence) else tuple(value)
