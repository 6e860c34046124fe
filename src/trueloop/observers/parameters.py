"""Parameters against optimizers: which ones train, which no optimizer holds, which never get a gradient, and why.

In the first steps of each model, `.grad` of each parameter is checked when a step begins. On deep steps also: which
modules ran, which recorded a graph, and which lines took a result out of the graph.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Final

from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import ParameterAccount, ParametersAccounted
from trueloop.measure.parameters import Gradients, ModuleRuns, parameters_of
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import KnownModel, KnownOptimizer, unwrapped
from trueloop.taps.calls import BackwardCall, DetachCall, InnerCall, ModuleCall, RunEnd, StepCall

__all__ = ["ParametersObserver"]

MILESTONES: Final = (2, 5, 10)  # steps of a model's optimizers after which the event is emitted; else at the end
LONGEST: Final = 100  # steps of the run over which a model is checked
ABANDONED_AT: Final = (2, 5)  # steps of an optimizer at which its tensors are looked up among the models'
PATIENCE: Final = 5  # steps of an optimizer before a parameter it holds counts as one without a gradient
CUTS: Final = 64  # walks behind tensors that were taken out of the graph
WALKS: Final = 3  # walks over the graph of a model's outputs
_UNHEARD: Final = ("argmax", "argmin", "round", "sign", "one_hot")
"""Calls whose result has no graph, and that no tap publishes."""


class _Record:
    """What is known of one model."""

    def __init__(self) -> None:
        self.gradients = Gradients()
        self.walks = 0
        self.closed = False  # the last event was emitted, or there will be none: no optimizer holds the model
        self.emitted = 0  # steps of the last event that was emitted
        self.draft: ParametersAccounted | None = None  # after the latest step: the model may be freed when the run ends


class ParametersObserver(Observer):
    emits = (ParametersAccounted,)
    rarely = ("module_call_ended", "backward_ended")

    def prepare(self) -> None:
        self._records: dict[int, _Record] = {}
        self._closed = 0  # number of closed records
        self._runs = ModuleRuns(_UNHEARD)
        self._cuts_left = CUTS
        self._steps_before: dict[int, int] = {}  # steps of each optimizer when an abandoned one was first met
        self._with_gradient: dict[int, weakref.ref[Tensor]] = {}  # of optimizers, in no model, with a gradient once

    # -- what runs, and what is cut --

    def inner_call_ended(self, call: InnerCall) -> None:
        self._runs.saw(call.module, call.output)

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module) if self.bus.deep else None
        if known is None:
            return
        self._runs.saw(unwrapped(call.module), call.output)
        record = self._records.setdefault(known.number, _Record())
        record.gradients.compiled = record.gradients.compiled or call.compiled
        if record.walks < WALKS and call.grad:
            record.walks += 1
            record.gradients.walk(call.output)

    def tensor_detached(self, cut: DetachCall) -> None:
        if self._cuts_left > 0:
            self._cuts_left -= 1
            self._runs.cut(cut.place, cut.function, cut.tensor)

    # -- looks --

    def backward_ended(self, call: BackwardCall) -> None:
        if self.bus.deep:
            for _, model, record in self._open_models():
                reached = (name for name, parameter in model.named_parameters() if parameter.grad is not None)
                record.gradients.reached.update(reached)

    def step_started(self, call: StepCall) -> None:
        if not call.closure and self._closed < len(self.objects.models):
            self._look(call.optimizer)
        if call.index in ABANDONED_AT and not call.closure:
            self._find_abandoned(call)

    def step_ended(self, call: StepCall) -> None:
        if self._closed == len(self.objects.models):
            return
        if call.closure:
            self._look(call.optimizer)
        for known, model, record in self._open_models():
            self._account(known, model, record, call)
            if record.emitted >= MILESTONES[-1] or self.bus.step - known.first_step > LONGEST:
                record.closed = True
        self._closed = sum(record.closed or self._is_freed(number) for number, record in self._records.items())

    def _open_models(self) -> Iterator[tuple[KnownModel, nn.Module, _Record]]:
        for known, model in self.objects.living_models():
            record = self._records.setdefault(known.number, _Record())
            if not record.closed:
                yield known, model, record

    def _is_freed(self, number: int) -> bool:
        return self.objects.models[number].ref() is None

    def run_ended(self, end: RunEnd) -> None:
        for record in self._records.values():
            if record.draft is not None and record.draft.steps > record.emitted:
                self.bus.emit(record.draft)

    def _look(self, optimizer: Optimizer) -> None:
        open_models = list(self._open_models())
        held = self.objects.held_ids() if open_models else set()
        for _, model, record in open_models:
            record.gradients.look(model, held)
        mine = {id(p) for _, model, _ in open_models for p in model.parameters()}
        for tensor in parameters_of(optimizer):
            if id(tensor) not in mine and tensor.grad is not None:
                self._with_gradient[id(tensor)] = weakref.ref(tensor)

    def _find_abandoned(self, call: StepCall) -> None:
        """None of the optimizer's tensors belongs to a model or has a gradient, while parameters of a model that no
        stepping optimizer holds have one: they have replaced them."""
        tensors = list(parameters_of(call.optimizer))
        models = list(self.objects.living_models())
        everybodys = {id(p) for _, model in models for p in model.parameters()}
        if not tensors or any(id(t) in everybodys or self._had_gradient(t) for t in tensors):
            return
        known = self.objects.optimizer(call.optimizer)
        moving = {n for one in self.objects.optimizers.values() if one.steps > self._steps_before.get(one.number, 0)
                  for n in one.ids}  # fmt: skip
        self._steps_before = {one.number: one.steps for one in self.objects.optimizers.values()}
        if call.index != ABANDONED_AT[-1]:
            return
        for found, model in models:
            new = [(n, p) for n, p in model.named_parameters() if p.requires_grad and p.grad is not None
                   and id(p) not in moving]  # fmt: skip
            if new:
                accounts = tuple(
                    ParameterAccount(n, p.numel(), True, False, True, True, True, None, ()) for n, p in new
                )
                sizes = tuple(tensor.numel() for tensor in tensors[:16])
                self.emit(ParametersAccounted, call.place, found.number, found.name, known.steps, accounts, 0,
                          len(tensors), sizes, known.place, ())  # fmt: skip

    # -- the account --

    def _account(self, known: KnownModel, model: nn.Module, record: _Record, call: StepCall) -> None:
        holders, orphans = self._holders(model)
        steps = max((holder.steps for holder in holders), default=0)
        if steps < MILESTONES[0]:
            return
        patient = {number for holder in holders if holder.steps >= min(steps - 1, PATIENCE) for number in holder.ids}
        accounts, in_order = record.gradients.accounts(
            model, self.objects.held_ids(), self._runs, lambda parameter: id(parameter) in patient
        )
        mine = {id(p) for p in model.parameters()}
        built = next((holder.place for holder in holders if holder.place is not None), None)
        record.draft = ParametersAccounted(
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
            cuts=self._runs.cuts_behind(mine),
        )
        if any(record.emitted < milestone <= steps for milestone in MILESTONES):
            record.emitted = steps
            self.bus.emit(record.draft)

    def _holders(self, model: nn.Module) -> tuple[list[KnownOptimizer], list[Tensor]]:
        """The optimizers of a model, and the tensors they hold that belong to no model and never had a gradient."""
        mine = {id(p): tuple(p.shape) for p in model.parameters()}
        everybodys = {id(p) for _, other in self.objects.living_models() for p in other.parameters()}
        holders: list[KnownOptimizer] = []
        orphans: list[Tensor] = []
        for known, optimizer in self.objects.living_optimizers():
            tensors = list(parameters_of(optimizer))
            lost = [t for t in tensors if id(t) not in everybodys and not self._had_gradient(t)]
            of_a_twin = len(lost) == len(tensors) and Counter(tuple(t.shape) for t in lost) == Counter(mine.values())
            if of_a_twin or any(id(t) in mine for t in tensors):
                holders.append(known)
                orphans += lost
        return holders, orphans

    def _had_gradient(self, tensor: Tensor) -> bool:
        return tensor.grad is not None or ((ref := self._with_gradient.get(id(tensor))) is not None and ref() is tensor)
