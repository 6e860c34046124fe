"""Publishes every operation of a few training steps and evaluation calls, by a function mode.

A function mode sees a call as the user or the layer wrote it (`F.cross_entropy`, `a - b`), with the arguments. It costs
1.5x on the steps that it sees, so it sees few: the first complete ones, some later ones, and the first evaluations.
"""

import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from trueloop.taps.bus import Bus
from trueloop.taps.calls import ModeChange, ModuleCall, OperationCall, ProgramStart, StepCall
from trueloop.taps.place import OVERRIDES, UNSEEN, here, is_users
from trueloop.taps.tap import Patch, Tap
from trueloop.torch_private.compiler import compiler_callback, frames_compiled
from trueloop.torch_private.modes import function_modes, has_only_default_device

__all__ = ["OperationTap"]

TRAINING_STEPS: Final = (1, 2, 3, 24, 120, 360, 1080, 3240)
"""Steps, of one optimizer, that are published, or the first watched ones after them. Step 0 is not: where it begins is
unknown."""
EVALUATIONS: Final = frozenset({0, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128})
"""Evaluations that are published, by their number: the latest of them is never long ago."""
CALLS: Final = 3  # calls of models in each
MOST_OPERATIONS: Final = 8000  # of one program: a script may prepare data, element by element, after eval()
_FEW: Final = ("data", "T", "mT", "H", "real")  # attributes that are operations


class OperationTap(Tap):
    topics = ("operation_ended",)

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._mode: _Operations | None = None
        self._program: ProgramStart | None = None
        self._published: dict[int, int] = {}  # optimizer -> how many of TRAINING_STEPS have passed
        self._evaluations = 0
        self._evaluating = False
        self._calls = 0
        self._buried: list[_Operations] = []
        """Modes that could not be left, because one of the user's lies on top."""
        self._compiled = 0

    def install(self) -> None:
        self._compiled = frames_compiled()
        self.bus.subscribe([self])

    def remove(self) -> None:
        self._end()
        self._leave()

    def sleep(self) -> None:
        self._end()

    # -- when --

    def step_ended(self, call: StepCall) -> None:
        """A step begins where the one before it has ended."""
        self._leave()
        if self._program is not None and self._program.phase == "training":
            self._end()
        if not call.closure and self._is_due(call):
            self._begin("training")

    def _is_due(self, call: StepCall) -> bool:
        number, passed = self.bus.ordinal("optimizer", call.optimizer), bisect_right(TRAINING_STEPS, call.index + 1)
        due = passed > self._published.get(number, 0)
        self._published[number] = passed
        return due

    def mode_set(self, change: ModeChange) -> None:
        if not change.training and self._program is None:
            self._begin_evaluation()

    def module_call_started(self, call: ModuleCall) -> None:
        if call.compiled or (self._program is not None and call.grad and self._program.phase == "evaluation"):
            self._end()
            return
        if call.grad:
            self._evaluating = False
        elif self._program is None and self.bus.step:
            self._begin_evaluation()
        self._calls += 1
        if self._program is not None and self._program.phase == "evaluation" and self._calls > CALLS:
            self._end()

    def loader_started(self, _: object) -> None:
        if self._program is not None and self._program.phase == "evaluation" and self._calls:
            self._end()

    def _begin_evaluation(self) -> None:
        """An evaluation begins with eval() or with a call without gradients, and ends with a call with gradients."""
        if not self._evaluating:
            self._evaluating = True
            if self._evaluations in EVALUATIONS:
                self._begin("evaluation")
            self._evaluations += 1

    # -- how --

    def _begin(self, phase: Any) -> None:
        compiled = frames_compiled() > self._compiled
        if compiled or self.bus.sharded or (function_modes() and not has_only_default_device()):
            return  # a mode would make compiled code compile again; and modes must be left in the order of entering
        self._calls = 0
        self._program = ProgramStart(phase)
        self._mode = _Operations(self.bus)
        self.bus.recording = True
        self.patches = [Patch(warnings, "warn", _at_the_same_line)]
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        self._publish("program_started", self._program)

    def _end(self) -> None:
        if self._program is None or self._mode is None:
            return
        self._publish("program_ended", self._program)
        self._program = None
        self.bus.recording = False
        super().remove()
        self._mode.active = False
        self._buried.append(self._mode)
        self._mode = None
        self._leave()

    def _leave(self) -> None:
        """Modes are left in the reverse order of entering: one under a mode of the user waits until that has gone."""
        while self._buried and function_modes()[-1:] == [self._buried[-1]]:
            self._buried.pop().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _publish(self, topic: str, subject: object) -> None:
        """Publish from inside an observer's call: the bus is busy with this tap itself."""
        busy, self.bus.busy = self.bus.busy, False
        try:
            self.bus.publish(topic, subject)
        finally:
            self.bus.busy = busy


class _Operations(TorchFunctionMode):
    def __init__(self, bus: Bus) -> None:
        super().__init__()
        self.active = True
        self._bus = bus
        self._left = MOST_OPERATIONS

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_compiling():  # first: a constant for the compiler of a plain function, whose graph must not break
            return func(*args, **kwargs)
        bus = self._bus
        while func.__class__ is _FUNCTION and func.__code__.co_filename == UNSEEN and hasattr(func, "__wrapped__"):
            func = func.__wrapped__  # the patched function has published this call already, or will
        output = func(*args, **kwargs)
        if bus.fetching or not self.active or bus.ignores() or bus.in_backward or bus.in_step:
            return output
        if compiler_callback() is not None:
            return output
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
            if name not in _FEW:
                return output
        self._left -= 1
        self.active = self._left > 0
        bus.publish("operation_ended", OperationCall(name, args, kwargs, output, here(2), _is_direct(name)))
        return output


def _is_direct(name: str) -> bool:
    """Did the user's own line call this function, and not a library's? Depth 2 is the caller of the mode."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith((UNSEEN, OVERRIDES)):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_name == name and not is_users(frame.f_code.co_filename):
        frame = frame.f_back  # the function itself, where it is written in Python: F.relu
    while frame is not None and frame.f_code.co_filename == UNSEEN:
        frame = frame.f_back
    return frame is not None and is_users(frame.f_code.co_filename)


def _at_the_same_line(original: Callable[..., None]) -> Callable[..., None]:
    """A function of torch that is called through a mode has two more frames below it: a warning skips them."""

    def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **others: Any) -> None:
        frame: FrameType | None = sys._getframe(1)
        levels, left = 2, stacklevel - 1
        while left > 0 and frame is not None and (frame := frame.f_back) is not None:
            levels += 1
            name = frame.f_code.co_filename
            if name.endswith(OVERRIDES) and frame.f_back is not None:
                frame, levels = frame.f_back, levels + 1  # the first call of the function, and the handing over
            elif name != UNSEEN:
                left -= 1
        original(message, category, levels, source, **others)

    return warn


_is_compiling: Final = torch.compiler.is_compiling
_FUNCTION: Final = type(lambda: None)
_code: Final = _Operations.__torch_function__.__code__
_Operations.__torch_function__.__code__ = _code.replace(co_filename=UNSEEN)
