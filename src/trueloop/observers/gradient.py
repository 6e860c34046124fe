"""Gradients between two steps of an optimizer: computed, cleared, clipped, used.

Recognized by identity and version of `.grad` around every backward, clip and step, so every way to clear is covered:
`zero_grad()`, `p.grad = None`, `p.grad.zero_()`. `p.grad.data.zero_()` does not change the version, so "not cleared" is
only reported after a look at the values.
"""

import weakref
from collections import Counter
from typing import Final, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from trueloop.event import SCALE_FREE, Clipped, Place, Stepped
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, ClipCall, StepCall, UnscaleCall
from trueloop.taps.graph import reduction_of
from trueloop.torch_private.tensors import tensor_version

__all__ = ["GradientObserver"]

SAMPLE: Final = 8  # parameters of an optimizer that are checked: the first, the last, and some between
CAREFUL_STEPS: Final = 5  # steps on which values are read even if versions show nothing, for clearing through `.data`
READ_EVERY: Final = 25  # steps between reads of values on a device

_Mark = tuple[weakref.ref[Tensor], int] | None  # A gradient at one moment: which tensor, and which version of it


class _Ledger:
    """What is known of one optimizer's gradients since its last step."""

    def __init__(self, optimizer: Optimizer, number: int) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.number = number
        self.everything = False
        self.parameters = 0
        self.listed = -1  # entries in its groups when the sample was chosen
        self.sample: list[weakref.ref[Tensor]] = []
        self.refresh(optimizer)
        self.stepped = False
        self.marks = self.look()  # at the last look
        self.after_step: list[_Mark] = []
        self.start_over(first=True)

    def refresh(self, optimizer: Optimizer) -> None:
        """Choose the sample again if parameters were added or removed."""
        listed = sum(len(group["params"]) for group in optimizer.param_groups)
        if listed == self.listed and (not self.everything or len(self.sample) == self.parameters):
            return
        self.listed = listed
        parameters = [p for p in parameters_of(optimizer) if isinstance(p, Tensor)]
        if len(parameters) != self.parameters or (self.everything and len(self.sample) != len(parameters)):
            self.parameters = len(parameters)
            stride = 1 if self.everything else max(1, -(-len(parameters) // SAMPLE))
            chosen = [*parameters[::stride], *parameters[-1:]]
            self.sample = [weakref.ref(p) for p in dict.fromkeys(chosen)]
            self.marks = self.look()
            self.after_step = []

    def start_over(self, *, first: bool = False) -> None:
        self.cleared = first
        self.clipped = False
        self.late = False  # the last clip met gradients that a step had already used
        self.made_nonzero = False
        self.thrown_away = False  # A backward computed gradients that were cleared before any step
        self.discarded: Counter[Place | None] = Counter()  # Backward calls whose gradients nothing used
        self.intact = True  # The gradients of the step are those of its last backward, clipped or not
        self.forget_backwards()

    def forget_backwards(self) -> None:
        """The gradients of earlier backwards are gone."""
        self.backwards: Counter[Place | None] = Counter()
        self.averaged: dict[Place | None, bool] = {}
        self.rescaled = False
        self.emptied = False
        self.length: float | None = None  # norm of one gradient at the last look, where it was read
        self.weights = (0, 0)  # at the latest backward: steps of the run, and versions of the weights

    def living(self) -> list[Tensor]:
        return [p for ref in self.sample if (p := ref()) is not None]

    def look(self) -> list[_Mark]:
        """Written out, like the comparison: both run several times in every step."""
        gradients = [p.grad for ref in self.sample if (p := ref()) is not None]
        return [None if g is None else (weakref.ref(g), tensor_version(g)) for g in gradients]

    def versions(self) -> int:
        return sum(map(tensor_version, self.living()))

    def unchanged_since(self, marks: list[_Mark]) -> bool:
        gradients = [p.grad for ref in self.sample if (p := ref()) is not None]
        if len(marks) != len(gradients):
            return False
        for mark, gradient in zip(marks, gradients, strict=True):
            if mark is None or gradient is None:
                if mark is not None or gradient is not None:
                    return False
            elif mark[0]() is not gradient or mark[1] != tensor_version(gradient):
                return False
        return True

    def read_length(self) -> float | None:
        """The norm of the smallest gradient."""
        gradients = [p.grad for p in self.living() if p.grad is not None and not p.grad.is_sparse]
        with torch.no_grad():
            return min(gradients, key=Tensor.numel).norm().item() if gradients else None

    def length_changed(self) -> bool:
        return self.length is not None and self.length != self.read_length()

    def all_none(self) -> bool:
        return all(p.grad is None for ref in self.sample if (p := ref()) is not None)

    def any_nonzero(self) -> bool:
        """Smallest first: one read is nearly always enough."""
        gradients = sorted((p.grad for p in self.living() if p.grad is not None), key=Tensor.numel)
        with torch.no_grad():
            return any(bool((g.coalesce().values() if g.is_sparse else g).any()) for g in gradients)


class GradientObserver(Observer):
    emits = (Stepped, Clipped)

    def prepare(self) -> None:
        self._ledgers: dict[int, _Ledger] = {}
        self._found: Literal["new", "same", "none", "cleared"] = "new"
        self._step_places: dict[int, Place | None] = {}

    def watching_resumed(self, nothing: None) -> None:
        self._ledgers.clear()

    def _all(self) -> list[_Ledger]:
        for known, optimizer in self.objects.living_optimizers():
            if known.number not in self._ledgers:
                self._ledgers[known.number] = _Ledger(optimizer, known.number)
        dead = [number for number, ledger in self._ledgers.items() if ledger.optimizer() is None]
        for number in dead:
            del self._ledgers[number]
        return list(self._ledgers.values())

    def _of(self, optimizer: Optimizer) -> _Ledger:
        number = self.objects.optimizer(optimizer).number
        if number not in self._ledgers:
            self._ledgers[number] = _Ledger(optimizer, number)
        return self._ledgers[number]

    # -- looks --

    def _find_reset(self, ledger: _Ledger, unchanged: bool | None = None) -> None:
        """Between the last look and now only the user (or a library) can have changed the gradients.

        `unchanged`: whether they are those of the last look, where the caller has compared them."""
        if ledger.backwards and unchanged is None:
            unchanged = ledger.unchanged_since(ledger.marks)
        touched = bool(ledger.backwards) and (not unchanged or ledger.length_changed())
        if not touched and (ledger.cleared or not ledger.stepped):
            return
        empty = ledger.all_none() or (self._may_read(ledger) and not ledger.any_nonzero())
        if ledger.stepped and not ledger.cleared:
            ledger.cleared = empty or _replaced(ledger) or not self._may_read(ledger)
        if touched:
            ledger.emptied, ledger.rescaled = empty, ledger.rescaled or not empty

    def backward_started(self, call: BackwardCall) -> None:
        for ledger in self._all():
            self._find_reset(ledger)
            if ledger.emptied:
                ledger.thrown_away = True
                if ledger.weights == (self.bus.step, ledger.versions()):  # no optimizer and no other line used them
                    ledger.discarded += ledger.backwards
                ledger.forget_backwards()
            ledger.marks = ledger.look()

    def backward_ended(self, call: BackwardCall) -> None:
        for ledger in self._ledgers.values():
            if not ledger.unchanged_since(ledger.marks):
                ledger.backwards[call.place] += 1
                ledger.weights = (self.bus.step, ledger.versions())
                if ledger.backwards[call.place] > 1:  # the first loss of a window is reduced like the others
                    ledger.averaged[call.place] = ledger.averaged.get(call.place, False) or _is_averaged(call)
                if self._careful(ledger):
                    ledger.made_nonzero = ledger.any_nonzero()
                self._remember(ledger)

    def clip_started(self, call: ClipCall) -> None:
        holders = self._holders(call.parameters)
        for ledger in holders:
            self._find_reset(ledger)
            ledger.late = self._used_up(ledger) or _has_none_yet(ledger)
            ledger.clipped = ledger.clipped or not ledger.late
        stale = bool(holders) and all(ledger.late for ledger in holders)
        if stale and any(_has_none_yet(ledger) for ledger in holders):
            return  # before the first backward, which may be meant for other parameters
        number = holders[0].number if holders else None
        place = None if number is None else self._step_places.get(number)
        self.emit(Clipped, call.place, call.function, call.limit, stale, number, place)

    def clip_ended(self, call: ClipCall) -> None:
        for ledger in self._holders(call.parameters):
            if ledger.late:
                ledger.after_step = ledger.look()  # what a late clip changed is not a new gradient
            self._remember(ledger)

    def _holders(self, parameters: tuple[Tensor, ...]) -> list[_Ledger]:
        wanted = set(map(id, parameters))
        return [ledger for ledger in self._all() if any(id(p) in wanted for p in ledger.living())]

    def _used_up(self, ledger: _Ledger) -> bool:
        """A step has used the gradients, and they are unchanged since, or cleared; no new ones came."""
        if not ledger.stepped or ledger.backwards or all(mark is None for mark in ledger.after_step):
            return False
        if ledger.unchanged_since(ledger.after_step) or ledger.all_none():
            return True
        return self._may_read(ledger) and not ledger.any_nonzero()

    def unscale_started(self, call: UnscaleCall) -> None:
        self._find_reset(self._of(call.optimizer))

    def unscale_ended(self, call: UnscaleCall) -> None:
        self._remember(self._of(call.optimizer))  # a GradScaler's own division is not the user's

    def _remember(self, ledger: _Ledger) -> None:
        """The gradients now; in the first windows their norm too, for a division through `.data`."""
        ledger.marks = ledger.look()
        window = max(ledger.backwards.values(), default=0) > 1
        ledger.length = ledger.read_length() if window and self._careful(ledger) else None

    # -- steps --

    def step_started(self, call: StepCall) -> None:
        if not call.closure:
            self._found = self._state_at_step(call.optimizer)

    def step_ended(self, call: StepCall) -> None:
        ledger = self._of(call.optimizer)
        found = ("new" if ledger.backwards else "none") if call.closure else self._found
        self._report(call, ledger, found)
        ledger.start_over()
        ledger.stepped = True
        ledger.marks = ledger.after_step = ledger.look()
        self._step_places[ledger.number] = call.place

    def _may_read(self, ledger: _Ledger) -> bool:
        """Reading values makes the host wait for a device: there, only on the first steps and then rarely."""
        on_host = all(p.device.type == "cpu" for p in ledger.living()[:1])
        return on_host or self._careful(ledger) or self.bus.step % READ_EVERY == 0

    def _careful(self, ledger: _Ledger) -> bool:
        optimizer = ledger.optimizer()
        return optimizer is not None and self.objects.optimizer(optimizer).steps < CAREFUL_STEPS

    def _state_at_step(self, optimizer: Optimizer) -> Literal["new", "same", "none", "cleared"]:
        ledger = self._of(optimizer)
        ledger.refresh(optimizer)
        ledger.intact = ledger.unchanged_since(ledger.marks)
        self._find_reset(ledger, ledger.intact)
        if ledger.all_none() and all(p.grad is None for p in parameters_of(optimizer)):
            return "cleared" if (ledger.backwards or ledger.thrown_away) and _trains(optimizer) else "none"
        if ledger.backwards:
            suspicious = not ledger.intact or (self._careful(ledger) and ledger.made_nonzero)
            return "cleared" if suspicious and not ledger.any_nonzero() and _trains(optimizer) else "new"
        if not ledger.any_nonzero():  # zeroed in place, and nothing came after
            return "cleared" if ledger.thrown_away and _trains(optimizer) else "none"
        if ledger.after_step and ledger.unchanged_since(ledger.after_step):
            if ledger.everything or len(ledger.sample) == ledger.parameters:
                return "same"
            ledger.everything = True  # the sample may have missed the change: check all of them from now on
        return "new"

    def _report(self, call: StepCall, ledger: _Ledger, found: Literal["new", "same", "none", "cleared"]) -> None:
        places = [place for place in ledger.backwards if place is not None]
        busiest, most = ledger.backwards.most_common(1)[0] if ledger.backwards else (None, 0)
        name = type(call.optimizer).__name__
        self.emit(
            Stepped,
            call.place,
            optimizer=ledger.number,
            name=name,
            index=call.index,
            gradients=found,
            cleared=ledger.cleared,
            backwards=sum(ledger.backwards.values()),
            backward_places=tuple(places),
            most_at_one_place=most,
            averaged=ledger.averaged.get(busiest, True) or ledger.rescaled,
            clipped=ledger.clipped,
            closure=call.closure,
            learning_rates=tuple(float(group.get("lr", 0.0)) for group in call.optimizer.param_groups),
            scale_free=name in SCALE_FREE,
            discarded=ledger.discarded[busiest] if ledger.intact and not call.closure else 0,
        )


def _is_averaged(call: BackwardCall) -> bool:
    """The loss is not a plain mean, or was divided."""
    if len(call.tensors) != 1 or call.gradients not in (None, (None,)):
        return True
    shape = reduction_of(call.tensors[0])
    return not shape.mean or shape.divided


def _trains(optimizer: Optimizer) -> bool:
    """Not all of its parameters are frozen: a player that rests has no gradients, and the cleared ones were not its."""
    return any(parameter.requires_grad for parameter in parameters_of(optimizer))


def _has_none_yet(ledger: _Ledger) -> bool:
    return not ledger.stepped and not ledger.backwards and ledger.all_none()


def _replaced(ledger: _Ledger) -> bool:
    """Some gradient is a different tensor than at the last step: it was freed and computed again."""
    living = ledger.living()
    if len(ledger.after_step) != len(living):
        return False
    pairs = [(mark, p.grad) for mark, p in zip(ledger.after_step, living, strict=True) if mark is not None]
    return any(gradient is None or mark[0]() is not gradient for mark, gradient in pairs)
