"""Parameters against optimizers: who is trained, who is held by nobody, who never gets a gradient, and why.

For the first steps of each model, `.grad` of each parameter is looked at where gradients exist: when a step begins.
Whether a module ran, whether it recorded a graph, and whether the user took its result out of the graph (and where) is
heard on the deep steps; the graph itself says which parameters stood behind what was taken out.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from trueloop.event import ParameterAccount, ParametersAccounted, Place
from trueloop.observers.observer import Observer
from trueloop.observers.roster import (
    KnownModel,
    KnownOptimizer,
    Roster,
    birthplace,
    parameters_of,
    unwrapped,
    users_classes,
)
from trueloop.taps.bus import Bus
from trueloop.taps.calls import BackwardCall, DetachCall, InnerCall, ModuleCall, RunEnd, StepCall, tensors_in
from trueloop.taps.graph import nodes
from trueloop.torch_private.tensors import tensor_version
from trueloop.usercode.ownership import attributes_read, cuts_in_forwards

__all__ = ["AccountsObserver"]

MILESTONES: Final = (2, 5, 10)
"""Steps of a model's optimizers after which its account is told; a shorter run tells its last one at the end."""
LONGEST: Final = 100
"""Steps of the run over which a model is looked at."""
PATIENCE: Final = 5
"""Steps that an optimizer must have taken before a parameter it holds counts as one without a gradient."""
CUTS: Final = 64
"""Walks behind tensors that were taken out of the graph: a loop shows its lines in the first few."""
WALKS: Final = 3
"""Walks over the graph of a model's outputs."""
LOOKED_AT: Final = 1024
"""Values of a parameter that are summed to see whether somebody writes to it by hand."""
_UNHEARD: Final = ("argmax", "argmin", "round", "sign", "one_hot")
"""Calls whose result has no graph, and that no tap tells of."""


class _Print(NamedTuple):
    """A parameter at one look."""

    version: int
    total: float


class _Book:
    """What is known of one model."""

    def __init__(self) -> None:
        self.had: set[str] = set()
        """Names of parameters that have had a gradient."""
        self.reached: set[str] = set()
        """Names of parameters that a backward reached; the user may have taken the gradient away before the step."""
        self.prints: dict[str, _Print] = {}
        """Of those that were not in order at the first look."""
        self.connected: set[int] = set()
        """Identities of the parameters behind the model's outputs."""
        self.walks = 0
        self.compiled = False
        self.closed = False
        """The last account has been told, or there will be none: nobody optimises the model."""
        self.told = 0
        """Steps of the last account that was told."""
        self.draft: ParametersAccounted | None = None
        """The account after the latest step, kept because the model may be gone when the run ends."""


class AccountsObserver(Observer):
    emits = (ParametersAccounted,)

    def __init__(self, bus: Bus, roster: Roster) -> None:
        super().__init__(bus, roster)
        self._books: dict[int, _Book] = {}
        self._closed = 0
        """How many books are closed."""
        self._ran: WeakSet[nn.Module] = WeakSet()
        self._graphed: WeakSet[nn.Module] = WeakSet()
        """Ran, and recorded a graph."""
        self._cuts: dict[tuple[Place, str], set[int]] = {}
        """Lines that left the graph, by which function, and identities of the parameters behind them."""
        self._cuts_left = CUTS
        self._graded: dict[int, weakref.ref[Tensor]] = {}
        """Tensors of optimizers that belong to no model and have had a gradient."""
        self._reads: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()

    # -- what runs, and what is cut --

    def inner_call_ended(self, call: InnerCall) -> None:
        self._note(call.module, call.output)

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.roster.model(call.module) if self.bus.deep else None
        if known is None:
            return
        self._note(unwrapped(call.module), call.output)
        book = self._books.setdefault(known.number, _Book())
        book.compiled = book.compiled or call.compiled
        if book.walks < WALKS and call.grad:
            book.walks += 1
            book.connected |= _leaves_behind(tensors_in(call.output, limit=16))

    def _note(self, module: nn.Module, output: object) -> None:
        self._ran.add(module)
        if module not in self._graphed and any(tensor.grad_fn is not None for tensor in tensors_in(output, limit=4)):
            self._graphed.add(module)

    def tensor_detached(self, cut: DetachCall) -> None:
        if self._cuts_left > 0:
            self._cuts_left -= 1
            self._cuts.setdefault((cut.place, cut.function), set()).update(_leaves_behind([cut.tensor]))

    # -- looks --

    def backward_ended(self, call: BackwardCall) -> None:
        if self.bus.deep:
            for _, model, book in self._open_models():
                book.reached.update(name for name, parameter in model.named_parameters() if parameter.grad is not None)

    def step_started(self, call: StepCall) -> None:
        if not call.closure and self._closed < len(self.roster.models):
            self._look(call.optimizer)

    def step_ended(self, call: StepCall) -> None:
        if self._closed == len(self.roster.models):
            return
        if call.closure:
            self._look(call.optimizer)
        for known, model, book in self._open_models():
            self._account(known, model, book, call)
            if book.told >= MILESTONES[-1] or self.bus.step - known.first_step > LONGEST:
                book.closed = True
        self._closed = sum(book.closed or self._is_gone(number) for number, book in self._books.items())

    def _open_models(self) -> Iterator[tuple[KnownModel, nn.Module, _Book]]:
        for known, model in self.roster.living_models():
            book = self._books.setdefault(known.number, _Book())
            if not book.closed:
                yield known, model, book

    def _is_gone(self, number: int) -> bool:
        return self.roster.models[number].ref() is None

    def run_ended(self, end: RunEnd) -> None:
        for book in self._books.values():
            if book.draft is not None and book.draft.steps > book.told:
                self.bus.emit(book.draft)

    def _look(self, optimizer: Optimizer) -> None:
        open_models = list(self._open_models())
        held = self.roster.held_ids() if open_models else set()
        for _, model, book in open_models:
            first = not book.had and not book.prints
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    book.had.add(name)
                if first and parameter.requires_grad and (parameter.grad is None or id(parameter) not in held):
                    book.prints[name] = _print_of(parameter)
        mine = {id(p) for _, model, _ in open_models for p in model.parameters()}
        for tensor in parameters_of(optimizer):
            if id(tensor) not in mine and tensor.grad is not None:
                self._graded[id(tensor)] = weakref.ref(tensor)

    # -- the account --

    def _account(self, known: KnownModel, model: nn.Module, book: _Book, call: StepCall) -> None:
        holders, orphans = self._holders(model)
        steps = max((holder.steps for holder in holders), default=0)
        if steps < MILESTONES[0]:
            return
        accounts, in_order = self._accounts(model, book, holders, steps)
        mine = {id(p) for p in model.parameters()}
        built = next((holder.place for holder in holders if holder.place is not None), None)
        book.draft = ParametersAccounted(
            step=self.bus.step,
            place=call.place,
            model=known.number,
            name=known.name,
            steps=steps,
            accounts=accounts,
            complete=in_order,
            orphans=len(orphans),
            orphan_sizes=tuple(tensor.numel() for tensor in orphans[:16]),
            optimizer_place=built,
            cuts=self._cuts_behind(mine),
        )
        if any(book.told < milestone <= steps for milestone in MILESTONES):
            book.told = steps
            self.bus.emit(book.draft)

    def _holders(self, model: nn.Module) -> tuple[list[KnownOptimizer], list[Tensor]]:
        """The optimizers of a model, and the tensors they hold that belong to nobody and never had a gradient."""
        mine = {id(p): tuple(p.shape) for p in model.parameters()}
        everybodys = {id(p) for _, other in self.roster.living_models() for p in other.parameters()}
        holders: list[KnownOptimizer] = []
        orphans: list[Tensor] = []
        for known, optimizer in self.roster.living_optimizers():
            tensors = list(parameters_of(optimizer))
            lost = [t for t in tensors if id(t) not in everybodys and not self._was_graded(t)]
            of_a_twin = len(lost) == len(tensors) and Counter(tuple(t.shape) for t in lost) == Counter(mine.values())
            if of_a_twin or any(id(t) in mine for t in tensors):
                holders.append(known)
                orphans += lost
        return holders, orphans

    def _was_graded(self, tensor: Tensor) -> bool:
        return tensor.grad is not None or ((ref := self._graded.get(id(tensor))) is not None and ref() is tensor)

    def _accounts(
        self, model: nn.Module, book: _Book, holders: list[KnownOptimizer], steps: int
    ) -> tuple[tuple[ParameterAccount, ...], int]:
        held = self.roster.held_ids()
        patient = {number for holder in holders if holder.steps >= min(steps - 1, PATIENCE) for number in holder.ids}
        found: list[ParameterAccount] = []
        in_order = 0
        for name, parameter in model.named_parameters():
            has, is_held = name in book.had, id(parameter) in held
            if not parameter.requires_grad or not (has or is_held) or is_lazy(parameter):
                continue
            if (has and is_held) or self._excused(model, name, parameter, book):
                in_order += 1
            elif has or (id(parameter) in patient and not book.compiled):
                found.append(self._told(model, name, parameter, book, is_held))
        return tuple(found), in_order

    def _excused(self, model: nn.Module, name: str, parameter: Tensor, book: _Book) -> bool:
        """Written to by hand, kept in eval mode on purpose, robbed of its gradient, or an expert whose turn has not
        come."""
        if book.prints.setdefault(name, now := _print_of(parameter)) != now:
            return True
        owner = model.get_submodule(name.rpartition(".")[0])
        if name in book.had:
            return model.training and not owner.training
        return name in book.reached or _is_an_expert(model, name, book.had)

    def _told(self, model: nn.Module, name: str, parameter: Tensor, book: _Book, held: bool) -> ParameterAccount:
        ran, graphed = self._how_it_ran(model, name, parameter, book)
        cuts = self._cuts_behind({id(parameter)})
        if not cuts and graphed and id(parameter) not in book.connected:
            cuts = tuple(dict.fromkeys(cuts_in_forwards(model, name, _UNHEARD)))
        return ParameterAccount(
            name=name,
            size=parameter.numel(),
            trainable=True,
            held=held,
            has_gradient=name in book.had,
            ran=ran,
            ran_with_graph=graphed,
            defined=birthplace(model, name),
            cuts=cuts,
        )

    def _cuts_behind(self, parameters: set[int]) -> tuple[Place, ...]:
        """Lines that took something computed with these out of the graph; a number is mostly taken for a log, so the
        others go first."""
        found = [key for key, behind in self._cuts.items() if behind & parameters]
        strong = [place for place, function in found if function != "item"]
        return tuple(dict.fromkeys(strong or [place for place, _ in found]))

    def _how_it_ran(self, model: nn.Module, name: str, parameter: Tensor, book: _Book) -> tuple[bool, bool]:
        """(did what owns the parameter run, did it record a graph with the parameter in it)"""
        path, _, attribute = name.rpartition(".")
        owner = model.get_submodule(path)
        behind = id(parameter) in book.connected or any(id(parameter) in ids for ids in self._cuts.values())
        if any(True for _ in users_classes(owner)):  # its forward may or may not use what it owns
            return behind or (owner in self._ran and attribute in self._read_in(type(owner))), behind
        while path and not _is_container(above := model.get_submodule(path.rpartition(".")[0])) and _is_torchs(above):
            owner, path = above, path.rpartition(".")[0]  # attention never calls its output layer: it reads the weight
        return owner in self._ran, behind or owner in self._graphed

    def _read_in(self, cls: type) -> frozenset[str]:
        """Attributes that the user's class reads outside its constructor."""
        if cls not in self._reads:
            self._reads[cls] = attributes_read(cls)
        return self._reads[cls]


def _leaves_behind(tensors: Iterable[Tensor]) -> set[int]:
    roots = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    return {
        id(node.variable)
        for root in roots[:4]
        for node in nodes(root)
        if not node.next_functions and hasattr(node, "variable")
    }


def _print_of(parameter: Tensor) -> _Print:
    """Cheap, and different as soon as somebody writes to it, through `.data` too."""
    with torch.no_grad():
        if (
            type(parameter) not in (Tensor, nn.Parameter)
            or parameter.device.type == "meta"
            or not parameter.is_floating_point()
        ):
            return _Print(
                tensor_version(parameter), 0.0
            )  # a sharded parameter is not read: that would make other processes wait
        return _Print(tensor_version(parameter), float(parameter.detach().reshape(-1)[:LOOKED_AT].double().sum()))


def _is_torchs(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.")


def _is_container(module: nn.Module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential))


def _is_an_expert(model: nn.Module, name: str, had: set[str]) -> bool:
    """A sibling of the same class, in the same ModuleList or ModuleDict, has had gradients."""
    parts = name.split(".")
    for depth in range(len(parts) - 1):
        above = ".".join(parts[:depth])
        container = model.get_submodule(above)
        if isinstance(container, (nn.ModuleList, nn.ModuleDict)):
            kind = type(model.get_submodule(".".join(parts[: depth + 1])))
            siblings = [key for key, child in container.named_children() if type(child) is kind and key != parts[depth]]
            prefix = above + "." if above else ""
            if any(other.startswith(f"{prefix}{key}.") for key in siblings for other in had):
                return True
    return False
