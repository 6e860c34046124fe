"""Lines of the user that start work on a device and return before it is done. Emitted once, when the run ends."""

from typing import Final

from torch import nn

from trueloop.event import DeviceWorked, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, ModuleCall, RunEnd, StepCall

__all__ = ["DeviceWorkObserver"]

MOST: Final = 64  # lines to remember: a program has a handful


class DeviceWorkObserver(Observer):
    emits = (DeviceWorked,)

    def prepare(self) -> None:
        self._known: set[int] = set()
        """Places seen, by identity: they live for the whole run, and the same few come in every step."""
        self._places: list[Place] = []
        self._device = ""

    def module_call_ended(self, call: ModuleCall) -> None:
        if id(call.place) not in self._known:
            self._look(call.place, _device_of(call.module))

    def backward_ended(self, call: BackwardCall) -> None:
        if id(call.place) not in self._known:
            self._look(call.place, next((t.device.type for t in call.tensors), "cpu"))

    def step_ended(self, call: StepCall) -> None:
        if id(call.place) not in self._known:
            parameters = (p for group in call.optimizer.param_groups for p in group["params"])
            self._look(call.place, next((p.device.type for p in parameters), "cpu"))

    def _look(self, place: Place | None, device: str) -> None:
        self._known.add(id(place))
        if place is not None and device not in ("cpu", "meta") and len(self._places) < MOST:
            self._device = device
            self._places.append(place)

    def run_ended(self, end: RunEnd) -> None:
        if self._places:
            self.emit(DeviceWorked, None, self._device, tuple(self._places))


def _device_of(module: nn.Module) -> str:
    first = next(module.parameters(), None)
    return "cpu" if first is None else first.device.type
