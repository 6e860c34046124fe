"""Custom `torch.autograd.Function`s: is the backward the derivative of the forward?

A function that a backward's graph holds is recorded at its next call: small copies of its inputs. At the end of the run
a fork calls it with them again and compares: what the function writes, prints or draws stays in the fork.
"""

import inspect
import re
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import BackwardTried, Place
from trueloop.measure.derivative import CannotTry, is_plain, wrong_gradients
from trueloop.measure.graph import inputs_of, nodes, operation_name
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, FunctionCall, RunEnd
from trueloop.taps.fork import CannotFork, run_in_fork
from trueloop.torch_private.autograd import custom_function
from trueloop.usercode.ownership import class_place, methods_of

__all__ = ["CustomFunctionObserver"]

FUNCTIONS: Final = 8  # Functions of a run that are tried
LARGEST: Final = 1 << 18  # Elements of all inputs of a function together
SECONDS: Final = 10.0  # For one function, in the fork
WALKS: Final = 3  # Backward passes whose graph is searched

_ON_PURPOSE: Final = re.compile(
    r"straight|surrogate|revers|quant|binar|ternar|feedback|symmetr|guided|spik|pseudo|approx|stop_?grad|(^|_)ste(_|$)|STE",
    re.I,
)
"""In the name of a function whose backward is meant to be something else than the derivative."""


@dataclass
class _Recorded:
    function: Any
    args: tuple[Any, ...]
    trained: tuple[bool | None, ...]
    called_at: Place | None
    refused: str = ""


class CustomFunctionObserver(Observer):
    emits = (BackwardTried,)

    def prepare(self) -> None:
        self._walks = 0
        self._backwards = 0
        self._seeded_by_one: dict[Any, bool] = {}  # functions found in a graph
        self._recorded: dict[Any, _Recorded] = {}

    def backward_started(self, call: BackwardCall) -> None:
        self._backwards += 1
        if self._walks >= WALKS or self._backwards & (self._backwards - 1):
            return  # looks at backward 1, 2, 4, 8 ...: a class may be defined late, and looking takes a millisecond
        if not any(map(_is_users, _all_functions(torch.autograd.Function))):
            return
        self._walks += 1
        roots = [tensor.grad_fn for tensor in call.tensors if isinstance(tensor, Tensor) and tensor.grad_fn is not None]
        first = [*roots, *(inner for root in roots if operation_name(root) == "Sum" for inner in inputs_of(root))]
        for node in nodes(*roots):
            function = custom_function(node)
            if function is None or not _is_users(function):
                continue
            by_one = call.gradients is None and node in first
            self._seeded_by_one[function] = self._seeded_by_one.get(function, True) and by_one
            if function not in self._recorded and len(self._recorded) < FUNCTIONS:
                self.bus.watch_function(function)

    def function_called(self, call: FunctionCall) -> None:
        trained = tuple(
            isinstance(a, torch.nn.Parameter) if isinstance(a, Tensor) and a.requires_grad else None for a in call.args
        )
        recorded = _Recorded(call.function, (), trained, call.place)
        self._recorded[call.function] = recorded
        if not all(map(is_plain, call.args)):
            recorded.refused = "it takes more than plain tensors and numbers"
            return
        tensors = [a for a in call.args if isinstance(a, Tensor)]
        size = sum(tensor.numel() for tensor in tensors)
        if any(tensor.device.type not in ("cpu", "cuda") for tensor in tensors):
            recorded.refused = "its inputs are neither on the CPU nor on a GPU"
        elif size > LARGEST and (len(tensors) > 1 or not tensors[0].dim()):
            recorded.refused = "its inputs are too large to copy"
        else:
            recorded.args = tuple(_copy(a) if isinstance(a, Tensor) else a for a in call.args)

    def run_ended(self, end: RunEnd) -> None:
        if end.reason == "hung":
            return
        alone = not (torch.distributed.is_available() and torch.distributed.is_initialized())
        for recorded in self._recorded.values():
            errors: Any = ()
            if not alone:
                recorded.refused = "several processes run it together"
            elif _ON_PURPOSE.search(recorded.function.__name__):
                recorded.refused = "its name says that the backward is not meant to be the derivative"
            if not recorded.refused:
                errors = self._try(recorded)
            name, place = recorded.function.__name__, _backward_place(recorded.function)
            self.emit(BackwardTried, place, name, recorded.called_at, recorded.refused, tuple(errors))
        self._recorded.clear()

    def _try(self, recorded: _Recorded) -> Any:
        by_one = self._seeded_by_one.get(recorded.function, False)
        try:
            # The fork works on the CPU: CUDA stays untouched, as in the workers of a DataLoader.
            return run_in_fork(
                lambda: wrong_gradients(recorded.function, recorded.args, recorded.trained, by_one),
                SECONDS,
                with_cuda=True,
            )
        except CannotFork as error:
            recorded.refused = str(error).removeprefix(f"{CannotTry.__name__}: ")
            return ()


def _copy(tensor: Tensor) -> Tensor:
    """On the CPU; of a large tensor only the first rows."""
    rows = max(1, LARGEST // max(1, tensor[0].numel())) if tensor.dim() and tensor.numel() > LARGEST else None
    part = tensor.detach() if rows is None else tensor.detach()[:rows]
    return part.cpu() if part.device.type != "cpu" else part.clone()


def _all_functions(base: Any) -> list[Any]:
    return [cls for child in base.__subclasses__() for cls in (child, *_all_functions(child))]


def _is_users(function: Any) -> bool:
    return class_place(function) is not None


def _backward_place(function: Any) -> Place | None:
    """The `def` line of its backward."""
    place = class_place(function)
    for cls in function.__mro__:
        for method in methods_of(cls):
            if method.name in ("backward", "vjp") and (home := class_place(cls)) is not None:
                return Place(home.path, method.lineno, inspect.unwrap(function.backward).__qualname__)
    return place
