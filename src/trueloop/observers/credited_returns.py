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
from trueloop.event.operation_names import ANY_ADDITION, ANY_DIFFERENCE, ARITHMETIC, JOINS, NEGATIONS, PRODUCTS, SHAPES
from trueloop.measure.returns import LEAST, Credit, credit_of
from trueloop.measure.series import numbers_of, row_marks, series_in
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, ModuleCall, OperationCall, ProgramStart
from trueloop.taps.variables import users_variables
from trueloop.torch_private.tensors import tensor_version

__all__ = ["CreditedReturnsObserver"]

NUMBERS: Final = 8192  # elements of a series
STATES: Final = 1 << 16  # elements of the states of an episode
TRIES: Final = 64  # tensors that are tried in one program
FRUITLESS: Final = 6  # of them at one line that makes no returns: a simulation of steps must not use up all tries
_PRODUCTS: Final = PRODUCTS | {"dot", "matmul", "__matmul__", "inner"}
_KEEPING: Final = ARITHMETIC | NEGATIONS | SHAPES | {
    "float", "double", "to", "detach", "clone", "contiguous", "clamp", "tensor", "as_tensor", "type_as", "view_as",
    "reshape_as", "data", "sum", "mean",
}  # fmt: skip
"""Operations whose result has the order of their first input."""
_BASELINES: Final = ANY_ADDITION | ANY_DIFFERENCE
_MAKERS: Final = JOINS | {"tensor", "as_tensor", "stack", "cumsum", "flip", "__getitem__", "transpose"}
_STACKS: Final = JOINS | {"stack", "hstack", "vstack"}
_TURNS: Final = frozenset({"flip", "flipud"})


@dataclass(slots=True)
class _Known:
    """What is known of a living tensor."""

    tensor: weakref.ref[Tensor]
    version: int
    credit: Credit | None
    place: Place | None
    born: int | None  # number of the operation that made it, or what it is computed from; None: unknown
    ordered: bool = False  # its rows were made in the order of time
    turned: bool = False  # it, or what it is computed from, was turned round


class CreditedReturnsObserver(Observer):
    emits = (ReturnsCredited,)
    rarely = ("module_call_started", "backward_started")

    def prepare(self) -> None:
        self._known: dict[int, _Known] = {}
        self._on = False
        self._number = self._tries = 0
        self._scalars: dict[Place | None, list[tuple[int | None, float]]] = {}
        self._fruitless: dict[Place | None, int] = {}  # tries at a line since it last made returns
        self._rows: list[float] = []  # a mark for each row of the latest input of a model, with a graph
        self._distinct = 0.0  # share of its time steps that differ
        self._calls: list[float] = []  # and of the inputs of earlier calls without

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._known, self._scalars, self._rows, self._calls, self._number, self._tries = {}, {}, [], [], 0, 0
        self._fruitless = {place: min(tries, FRUITLESS - 2) for place, tries in self._fruitless.items()}

    def program_ended(self, start: ProgramStart) -> None:
        self._on, self._known, self._scalars, self._rows, self._calls = False, {}, {}, [], []

    def module_call_started(self, call: ModuleCall) -> None:
        if not self._on or not call.args or not isinstance(call.args[0], Tensor):
            return
        given = call.args[0]
        if not _is_small(given, STATES, 3):
            return
        if call.grad and given.ndim >= 2 and len(given):
            self._rows = row_marks(given)
            wide = len(self._rows) // len(given)  # environments that are stepped together
            steps = {tuple(self._rows[i : i + wide]) for i in range(0, len(self._rows), max(wide, 1))}
            self._distinct = len(steps) / len(given)
        elif len(self._calls) < NUMBERS and given.ndim <= 2:
            self._calls += row_marks(given)

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
        if (output.requires_grad and call.name not in _BASELINES) or not _is_small(output):
            self._remember(output, None, place, born, self._in_order(call, inputs), self._is_turned(call))
            return
        marked = [e for t in inputs if keeps and (e := self._tried(t, call.place)) is not None and e.credit is not None]
        if marked and marked[0].credit is not None:
            credit, place = marked[0].credit, marked[0].place
        elif not output.requires_grad and call.name in _MAKERS:
            credit = self._try(output, call.place)
        ordered = output.requires_grad and self._in_order(call, inputs)
        self._remember(output, credit, place, born, ordered, self._is_turned(call))

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
            known = self._tried(given, call.place)
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
            credit = self._try(torch.tensor([number for _, number in products], dtype=torch.float64), place)
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
        self, tensor: Tensor, credit: Credit | None, place: Place | None, born: int | None, ordered: bool = False,
        turned: bool = False,
    ) -> None:  # fmt: skip
        self._known[id(tensor)] = _Known(
            weakref.ref(tensor), tensor_version(tensor), credit, place, born, ordered, turned
        )

    def _is_turned(self, call: OperationCall) -> bool:
        parts = call.args[0] if call.args and isinstance(call.args[0], (list, tuple)) else call.args[:1]
        entries = [self._entry(part) for part in parts if isinstance(part, Tensor)]
        before = any(entry is not None and entry.turned for entry in entries)
        return before != (call.name in _TURNS)

    def _in_order(self, call: OperationCall, inputs: list[Tensor]) -> bool:
        """A stack of values that were made one after another, or something computed from one."""
        if call.name in _STACKS and isinstance(call.args[0], (list, tuple)):
            parts = [t for t in call.args[0] if isinstance(t, Tensor)]
            entries = [self._entry(t) for t in parts]
            orders = [None if entry is None else entry.born for entry in entries]
            if None in orders or orders != sorted(set(orders)):  # type: ignore[type-var]
                return False
            single = call.name == "stack" or len(parts) >= LEAST
            return single or all(
                e is not None and (e.ordered or t.numel() == 1) for e, t in zip(entries, parts, strict=True)
            )
        entry = self._entry(inputs[0]) if inputs else None
        return entry is not None and entry.ordered and call.name in _KEEPING

    def _tried(self, tensor: Tensor, place: Place | None) -> _Known | None:
        """What is known; tried again if it has been written to, or was not made by an operation that is seen."""
        entry = self._entry(tensor)
        if tensor.requires_grad or not _is_small(tensor):
            return entry
        if entry is None or (entry.version != tensor_version(tensor) and entry.credit is None):
            self._remember(tensor, self._try(tensor, place), None if entry is None else entry.place, None)
            entry = self._entry(tensor)
        return entry

    # -- against the user's variables --

    def _try(self, tensor: Tensor, place: Place | None) -> Credit | None:
        fruitless = self._fruitless.get(place, 0)
        if self._tries >= TRIES or fruitless >= FRUITLESS or not _is_small(tensor) or tensor.numel() < LEAST:
            return None
        self._tries += 1
        returns = tensor.detach().double()
        found = self._credit(returns)
        self._fruitless[place] = fruitless + 1 if found is None else 0
        return found

    def _credit(self, returns: Tensor) -> Credit | None:
        found = None
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
        if entry is not None and (entry.ordered or entry.turned):
            return entry.ordered and not entry.turned
        rows, calls = self._rows, self._calls
        if not rows or len(rows) != learned.numel() or len(calls) < len(rows) or self._distinct < 0.5:
            return False
        starts = (number for number, mark in enumerate(calls) if mark == rows[0])
        return any(calls[start : start + len(rows)] == rows for start in starts)


def _is_small(tensor: Tensor, most: int = NUMBERS, dimensions: int = 2) -> bool:
    plain = is_plain(tensor) and is_readable(tensor) and tensor.is_cpu and tensor.is_floating_point()
    return plain and tensor.numel() <= most and tensor.ndim <= dimensions
