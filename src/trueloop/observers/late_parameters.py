"""Parameters that appear in a model, or are unfrozen, after its first steps: does an optimizer hold them?

`parameters.py` looks at the first steps of each model. A head that is replaced for a second stage, or a body that is
unfrozen later, comes after them. Every few steps the parameters of each model are compared with those of its first
look; a new or unfrozen one with a gradient, in no optimizer, is followed for some steps.
"""

import weakref
from dataclasses import dataclass, field
from typing import Final

from torch import Tensor, nn

from trueloop.event import ParameterAccount, ParametersAccounted
from trueloop.measure.parameters import Fingerprint, fingerprint, parameters_of
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel
from trueloop.taps.calls import StepCall

__all__ = ["LateParametersObserver"]

FIRST: Final = 10  # steps of the run after a model was first called, before its parameters are compared
EVERY: Final = 8  # steps
LOOKS: Final = 5  # at a parameter that nobody holds, in successive steps
MODELS: Final = 16


@dataclass(slots=True)
class _Late:
    """A parameter that is followed."""

    ref: weakref.ref[Tensor]
    first: Fingerprint
    unfrozen: bool
    looks: int = 0
    cleared: bool = False  # an optimizer holds it, somebody writes to it, or it gets no gradient


@dataclass(slots=True)
class _Record:
    known: dict[int, tuple[weakref.ref[Tensor], bool]] = field(default_factory=dict)  # by identity: was it trainable
    late: dict[str, _Late] = field(default_factory=dict)
    reported: bool = False


class LateParametersObserver(Observer):
    emits = (ParametersAccounted,)

    def prepare(self) -> None:
        self._records: dict[int, _Record] = {}
        self._followed: dict[int, tuple[KnownModel, _Record]] = {}

    def step_started(self, call: StepCall) -> None:
        if call.closure:
            return
        if self._followed:
            self._follow(call)
        if self.bus.step % EVERY == 0:
            for known, model in list(self.objects.living_models())[:MODELS]:
                if self.bus.step - known.first_step >= FIRST:
                    self._compare(known, model)

    def _compare(self, known: KnownModel, model: nn.Module) -> None:
        record = self._records.get(known.number)
        if record is None:
            record = self._records[known.number] = _Record()
            self._remember(record, model)
            return
        if record.reported or record.late:
            return
        late: dict[str, tuple[Tensor, bool]] = {}
        for name, parameter in model.named_parameters():
            before = record.known.get(id(parameter))
            new = before is None or before[0]() is not parameter
            unfrozen = before is not None and not new and not before[1]
            if (new or unfrozen) and parameter.requires_grad:
                late[name] = (parameter, unfrozen)
        if not late:
            return
        held = self.objects.held_ids()
        for name, (tensor, unfrozen) in late.items():
            if id(tensor) not in held and is_plain(tensor) and is_readable(tensor):
                record.late[name] = _Late(weakref.ref(tensor), fingerprint(tensor), unfrozen)
        if record.late:
            self._followed[known.number] = (known, record)
        else:
            self._remember(record, model)

    def _remember(self, record: _Record, model: nn.Module) -> None:
        tensors: list[Tensor] = list(model.parameters())
        record.known = {number: entry for number, entry in record.known.items() if entry[0]() is not None}
        record.known |= {id(tensor): (weakref.ref(tensor), tensor.requires_grad) for tensor in tensors}

    def _follow(self, call: StepCall) -> None:
        held = self.objects.held_ids()
        for number, (known, record) in list(self._followed.items()):
            model = known.ref()
            mine = set() if model is None else {id(p) for p in model.parameters()}
            if model is None or not any(id(p) in mine for p in parameters_of(call.optimizer)):
                if model is None:
                    del self._followed[number]
                continue
            for name, late in record.late.items():
                self._look(model, name, late, held)
            if all(late.cleared or late.looks >= LOOKS for late in record.late.values()):
                del self._followed[number]
                self._report(known, model, record, call)

    def _look(self, model: nn.Module, name: str, late: _Late, held: set[int]) -> None:
        parameter = late.ref()
        late.looks += 1
        if parameter is None or parameter.grad is None or id(parameter) in held or not parameter.requires_grad:
            late.cleared = True
            return
        owner = name.rpartition(".")[0]
        waits = model.training and not model.get_submodule(owner).training
        late.cleared = late.cleared or waits or fingerprint(parameter) != late.first

    def _report(self, known: KnownModel, model: nn.Module, record: _Record, call: StepCall) -> None:
        names = {name: late for name, late in record.late.items() if not late.cleared}
        record.late = {}
        if not names:
            self._remember(record, model)
            return
        record.reported = True
        mine = {id(p) for p in model.parameters()}
        once = {id(p) for ref, _ in record.known.values() if (p := ref()) is not None}
        everybodys = {id(p) for _, other in self.objects.living_models() for p in other.parameters()}
        old = [p for p in parameters_of(call.optimizer) if id(p) in once - everybodys]
        held = self.objects.held_ids()
        accounts = tuple(
            ParameterAccount(name, parameter.numel(), True, False, True, True, True, None, ())
            for name, parameter in model.named_parameters()
            if name in names
        )
        optimizer = self.objects.optimizer(call.optimizer)
        unfrozen = all(late.unfrozen for late in names.values())
        self.emit(ParametersAccounted, call.place, known.number, known.name, LOOKS, accounts, len(mine & held),
                  len(old), tuple(p.numel() for p in old[:16]), optimizer.place, (), unfrozen)  # fmt: skip
