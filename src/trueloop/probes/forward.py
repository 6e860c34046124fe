"""Calls of models, and what became of each: trained (a backward went through it), dropped (its graph was freed unused), graphless.

The fate is learnt from the graph itself: a hook on the output's node says that a backward came by, and a note in the node, which dies with
the node, says that none can come any more. Nothing is kept alive and nothing is guessed from the order of calls.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Final
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from trueloop.event import Forward, ModelSeen, Place
from trueloop.probes.probe import Probe
from trueloop.probes.roster import Roster, class_place, unwrapped
from trueloop.taps.moment import LossCall, ModeChange, ModuleCall, RunEnd, StepCall, tensors_in
from trueloop.taps.note import FORWARD, write_note
from trueloop.taps.wire import Wire

__all__ = ["ForwardProbe"]

_OUTPUTS: Final = 4
"""Outputs of one call whose nodes are marked: a model's first few tensors carry the loss."""


class _Life:
    """Put into a graph node; dies with it."""

    __slots__ = ("__weakref__",)


class _Pending:
    """A call whose fate is not known yet. Holds numbers and weak references only."""

    __slots__ = ("facts", "lives", "scored", "trained")

    def __init__(self, facts: dict[str, Any], output: object) -> None:
        self.facts = facts
        self.trained = False
        self.scored = False
        self.lives: list[weakref.ref[_Life]] = []
        made = [tensor for tensor in tensors_in(output) if tensor.grad_fn is not None]
        for tensor in made[:_OUTPUTS]:
            life = _Life()
            write_note(tensor, FORWARD, life)
            if tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(self._backward_came)
            self.lives.append(weakref.ref(life))

    def _backward_came(self, gradients: object) -> None:
        self.trained = True

    def fate(self) -> str:
        """'' as long as it is open."""
        if self.trained:
            return "trained"
        if not self.lives:
            return "graphless"
        return "" if any(life() is not None for life in self.lives) else "dropped"


class ForwardProbe(Probe):
    emits = (ModelSeen, Forward)

    def __init__(self, wire: Wire, roster: Roster) -> None:
        super().__init__(wire, roster)
        self._pending: dict[int, deque[_Pending]] = {}
        self._latest: _Pending | None = None
        self._seen: set[int] = set()
        self._moody: WeakKeyDictionary[nn.Module, tuple[list[nn.Module], list[nn.Module]]] = WeakKeyDictionary()
        """Per model: its dropout layers and its layers with running statistics."""
        self._inputs: dict[int, list[weakref.ref[Tensor]]] = {}
        self._eval_place: WeakKeyDictionary[nn.Module, Place] = WeakKeyDictionary()

    def mode_set(self, change: ModeChange) -> None:
        if change.place is not None and not change.training:
            self._eval_place[change.module] = change.place

    def module_call_started(self, call: ModuleCall) -> None:
        self._settle()

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.roster.model(call.module)
        if known is None or call.failed:
            return
        model = unwrapped(call.module)
        if model not in self._moody or self.wire.deep:
            self._moody[model] = _layers_with_a_mode(model)
        dropouts, norms = self._moody[model]
        if known.number not in self._seen:
            self._seen.add(known.number)
            self._introduce(call, model, known.number, len(dropouts), len(norms))
        inputs = list(tensors_in((call.args, call.kwargs), limit=16))
        active_dropouts = sum(layer.training for layer in dropouts)
        active_norms = sum(layer.training for layer in norms)
        pending = _Pending(
            {
                "step": self.wire.step,
                "place": call.place,
                "call": call.number,
                "model": known.number,
                "name": known.name,
                "training": call.training,
                "grad": call.grad,
                "active_dropouts": active_dropouts,
                "active_batch_norms": active_norms,
                "idle_dropouts": len(dropouts) - active_dropouts,
                "idle_batch_norms": len(norms) - active_norms,
                "batch": inputs[0].shape[0] if inputs and inputs[0].dim() else None,
                "same_input": self._same_input(known.number, inputs),
                "recalibration": call.recalibration,
                "eval_place": self._eval_place.get(model) or self._eval_place.get(call.module),
            },
            call.output,
        )
        self._pending.setdefault(known.number, deque()).append(pending)
        self._latest = pending

    def loss_called(self, loss: LossCall) -> None:
        if self._latest is not None:
            self._latest.scored = True

    def step_ended(self, call: StepCall) -> None:
        self._settle()

    def run_ended(self, end: RunEnd) -> None:
        self._settle(at_the_end=True)

    def _introduce(self, call: ModuleCall, model: nn.Module, number: int, dropouts: int, norms: int) -> None:
        self.wire.emit(
            ModelSeen(
                step=self.wire.step,
                place=call.place,
                model=number,
                name=type(model).__name__,
                parameters=sum(p.numel() for p in model.parameters()),
                dropouts=dropouts,
                batch_norms=norms,
                compiled=call.compiled,
                defined=class_place(type(model)),
            )
        )

    def _same_input(self, model: int, inputs: list[Tensor]) -> bool:
        before = self._inputs.get(model)
        self._inputs[model] = [weakref.ref(tensor) for tensor in inputs]
        return bool(inputs) and _identical(before, inputs)

    def _settle(self, *, at_the_end: bool = False) -> None:
        """Tell, in the order of the calls, those whose fate is known."""
        for waiting in self._pending.values():
            while waiting:
                fate = waiting[0].fate() or ("unknown" if at_the_end else "")
                if not fate:
                    break
                pending = waiting.popleft()
                self.wire.emit(Forward(**pending.facts, fate=fate, scored=pending.scored))  # type: ignore[arg-type]


def _identical(before: list[weakref.ref[Tensor]] | None, inputs: list[Tensor]) -> bool:
    return before is not None and len(before) == len(inputs) and all(r() is t for r, t in zip(before, inputs, strict=True))


def _layers_with_a_mode(model: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    dropouts: list[nn.Module] = [m for m in model.modules() if isinstance(m, _DropoutNd) and m.p > 0]
    norms: list[nn.Module] = [m for m in model.modules() if isinstance(m, _NormBase) and m.track_running_stats]
    return dropouts, norms
