"""Do the returns that weigh log-probabilities add up the rewards that follow an action, or those before it?

In recorded training steps, numbers without a graph that multiply values with a graph, one per time step, are tried as
returns of each series of rewards in the user's variables. The exact recursion tells the direction, however the returns
were computed: in lists, arrays or tensors, and whatever they are called.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from trueloop.event import Place, ReturnsCredited
from trueloop.event.operation_names import ARITHMETIC, NEGATIONS, PRODUCTS, SHAPES
from trueloop.measure.returns import LEAST, Credit, credit_of
from trueloop.measure.series import numbers_of, row_marks, series_in
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, ModuleCall, OperationCall, ProgramStart
from trueloop.taps.variables import users_variables
from trueloop.torch_private.tensors import tensor_version

__all__ = ["CreditedReturnsObserver"]

NUMBERS: Final = 8192  # elements of a series
TRIES: Final = 48  # tensors that are tried in one program
_PRODUCTS: Final = PRODUCTS | {"dot", "matmul", "__matmul__", "inner"}
_KEEPING: Final = ARITHMETIC | NEGATIONS | SHAPES | {
    "float", "double", "to", "detach", "clone", "contiguous", "clamp", "tensor", "as_tensor", "type_as", "view_as",
    "reshape_as", "data", "sum", "mean",
}  # fmt: skip
"""Operations whose result has the order of their first input."""


@dataclass(slots=True)
class _Known:
    """What is known of a living tensor."""

    tensor: weakref.ref[Tensor]
    version: int
    credit: Credit | None
    place: Place | None
    born: int | None  # number of the operation that made it, or what it is computed from; None: unknown
    ordered: bool = False  # its rows were made in the order of time


class CreditedReturnsObserver(Observer):
    emits = (ReturnsCredited,)
    rarely = ("module_call_started", "backward_started")

    def prepare(self) -> None:
        self._known: dict[int, _Known] = {}
        self._on = False
        self._number = self._tries = 0
        self._scalars: dict[Place | None, list[tuple[int | None, float]]] = {}
        self._rows: list[float] = []  # a mark for each row of the latest input of a model, with a graph
        self._calls: list[float] = []  # and of the inputs of earlier calls without

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._known, self._scalars, self._rows, self._calls, self._number, self._tries = {}, {}, [], [], 0, 0

    def program_ended(self, start: ProgramStart) -> None:
        self._on, self._known, self._scalars, self._rows, self._calls = False, {}, {}, [], []

    def module_call_started(self, call: ModuleCall) -> None:
        if self._on and call.args and isinstance(call.args[0], Tensor) and _is_small(call.args[0]):
            if call.grad and call.args[0].ndim == 2:
                self._rows = row_marks(call.args[0])
            elif len(self._calls) < NUMBERS:
                self._calls += row_marks(call.args[0])

    # -- operations --

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        self._number += 1
        if self.bus.call is not None or not isinstance(call.output, Tensor):
            if isinstance(call.output, Tensor):
                self._remember(call.output, None, call.place, self._number)
            return
        inputs = [value for value in call.args[:2] if isinstance(value, Tensor)]
        if call.name in _PRODUCTS:
            self._product(call, inputs)
        output, first = call.output, self._entry(inputs[0]) if inputs else None
        keeps = call.name in _KEEPING and bool(inputs)
        born = first.born if keeps and first is not None else self._number
        credit, place = None, call.place
        if output.requires_grad or not _is_small(output):
            self._remember(output, None, place, born, self._in_order(call, inputs))
            return
        marked = [e for t in inputs if keeps and (e := self._tried(t)) is not None and e.credit is not None]
        if marked and marked[0].credit is not None:
            credit, place = marked[0].credit, marked[0].place
        elif call.name in ("tensor", "as_tensor", "stack", "cat", "cumsum", "flip", "__getitem__", "transpose"):
            credit = self._try(output)
        self._remember(output, credit, place, born)

    def _product(self, call: OperationCall, inputs: list[Tensor]) -> None:
        if len(inputs) == 1 and inputs[0].requires_grad and inputs[0].numel() == 1:
            number = next((v for v in call.args[:2] if isinstance(v, float)), None)
            self._scalar(call, inputs[0], number)
            return
        if len(inputs) != 2 or inputs[0].requires_grad == inputs[1].requires_grad:
            return
        learned, given = inputs if inputs[0].requires_grad else inputs[::-1]
        if learned.numel() == given.numel() == 1:
            self._scalar(call, learned, float(given.detach()))
        elif learned.shape == given.shape:
            known = self._tried(given)
            wrong = known is not None and known.credit is not None and known.credit.direction != "later"
            if known is not None and known.credit is not None and wrong and self._is_in_time_order(learned):
                self._report(known.credit, known.place, call.place)

    def _scalar(self, call: OperationCall, learned: Tensor, number: float | None) -> None:
        """One product of a loop over time steps."""
        entry = self._entry(learned)
        if number is not None:
            self._scalars.setdefault(call.place, []).append((None if entry is None else entry.born, number))

    def backward_started(self, call: BackwardCall) -> None:
        if not self._on:
            return
        for place, products in self._scalars.items():
            orders = [born for born, _ in products]
            if len(products) < LEAST or None in orders or orders != sorted(set(orders)):  # type: ignore[type-var]
                continue
            credit = self._try(torch.tensor([number for _, number in products], dtype=torch.float64))
            if credit is not None and credit.direction != "later":
                self._report(credit, place, place)
        self._scalars = {}

    def _report(self, credit: Credit, place: Place | None, product: Place | None) -> None:
        self.emit(ReturnsCredited, place or product, credit.direction, credit.discount, credit.steps, product)

    # -- what is known of a tensor --

    def _entry(self, tensor: Tensor) -> _Known | None:
        entry = self._known.get(id(tensor))
        return entry if entry is not None and entry.tensor() is tensor else None

    def _remember(
        self, tensor: Tensor, credit: Credit | None, place: Place | None, born: int | None, ordered: bool = False
    ) -> None:
        self._known[id(tensor)] = _Known(weakref.ref(tensor), _version(tensor), credit, place, born, ordered)

    def _in_order(self, call: OperationCall, inputs: list[Tensor]) -> bool:
        """A stack of values that were made one after another, or something computed from one."""
        if call.name in ("stack", "cat", "hstack", "concat", "vstack") and isinstance(call.args[0], (list, tuple)):
            entries = [self._entry(t) for t in call.args[0] if isinstance(t, Tensor)]
            orders = [None if entry is None else entry.born for entry in entries]
            return len(orders) >= LEAST and None not in orders and orders == sorted(set(orders))  # type: ignore[type-var]
        entry = self._entry(inputs[0]) if inputs else None
        return entry is not None and entry.ordered and call.name in _KEEPING

    def _tried(self, tensor: Tensor) -> _Known | None:
        """What is known; tried again if it has been written to, or was not made by an operation that is seen."""
        entry = self._entry(tensor)
        if tensor.requires_grad or not _is_small(tensor):
            return entry
        if entry is None or (entry.version != _version(tensor) and entry.credit is None):
            self._remember(tensor, self._try(tensor), None if entry is None else entry.place, None)
            entry = self._entry(tensor)
        return entry

    # -- against the user's variables --

    def _try(self, tensor: Tensor) -> Credit | None:
        if self._tries >= TRIES or not _is_small(tensor) or tensor.numel() < LEAST:
            return None
        self._tries += 1
        returns, found = tensor.detach().double(), None
        for rewards in self._candidates(returns):
            for given in (returns, returns.T) if returns.ndim == 2 else (returns,):
                matching = given.reshape(rewards.shape) if given.numel() == rewards.numel() else None
                fits = matching is not None and (given.ndim == 1 or given.shape == rewards.shape)
                credit = credit_of(matching, rewards) if fits and matching is not None else None
                if credit is not None and credit.direction == "later":
                    return credit
                found = found or credit
        return found

    def _candidates(self, returns: Tensor) -> Iterator[Tensor]:
        for variables in users_variables(2):
            for series in series_in(variables, returns.shape):
                numbers = numbers_of(series, NUMBERS)
                if numbers is not None and numbers.ndim <= 2 and numbers.numel() == returns.numel():
                    yield numbers
                    if numbers.ndim == 2:
                        yield numbers.T.contiguous()

    def _is_in_time_order(self, learned: Tensor) -> bool:
        """Of the values with a graph: made one after another, or computed from rows that entered a model one after
        another."""
        entry = self._entry(learned)
        if entry is not None and entry.ordered:
            return True
        rows, calls = self._rows, self._calls
        if not rows or len(rows) != learned.numel() or len(calls) < len(rows) or len(set(rows)) < len(rows) // 2:
            return False
        starts = (number for number, mark in enumerate(calls) if mark == rows[0])
        return any(calls[start : start + len(rows)] == rows for start in starts)


def _is_small(tensor: Tensor) -> bool:
    plain = is_plain(tensor) and is_readable(tensor) and tensor.is_cpu and tensor.is_floating_point()
    return plain and tensor.numel() <= NUMBERS and tensor.ndim <= 2


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor_version(tensor)
