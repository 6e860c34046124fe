"""Calls of models and their fate: trained (a backward went through), dropped (its graph was freed unused), graphless.

A hook on the output's node shows that a backward came; a note in the node, freed with it, shows that none can come any
more. Nothing is kept alive. Where a line has trained a model several times in a row, the next call there is not hooked:
it counts as trained when a backward follows before its graph is freed.
"""

import weakref
from collections import Counter, deque
from typing import Any, Final
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.optim import Optimizer

from trueloop.event import Forward, ModelSeen, Place, SteppedWhileEvaluating
from trueloop.measure.model import drops, keeps_statistics, model_seen
from trueloop.measure.parameters import parameters_of
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import RunObjects, unwrapped
from trueloop.taps.calls import (
    BackwardCall,
    DecisionCall,
    LoaderStart,
    LossCall,
    ModeChange,
    ModuleCall,
    RunEnd,
    StepCall,
    tensors_in,
)
from trueloop.taps.graph_notes import FORWARD, write_note
from trueloop.usercode.ownership import draws_in_training, mode_dropped_place

__all__ = ["ForwardObserver"]

OUTPUTS: Final = 4  # outputs of one call whose nodes are marked: the first few tensors carry the loss
HABIT: Final = 6  # training calls of a model at one line before later ones are not hooked: half of the cost is the hook
WAITING: Final = 256  # later calls that an open call may delay: an output kept for the whole run must not block all
IDLE: Final = ("idle_dropouts", "idle_batch_norms", "idle_noises")  # inactive in eval mode, by the names of the facts
REMEMBERED: Final = 64  # calls of a model remembered from one step to the next, for their modes


class _Marker:
    """Stored in a graph node; freed with it."""

    __slots__ = ("__weakref__",)


class _Pending:
    """A call whose fate is still unknown. Holds numbers and weak references only."""

    __slots__ = ("facts", "hooked", "lives", "opaque", "scored", "sizes", "trained", "training")

    def __init__(self, facts: dict[str, Any], output: object, *, hooked: bool) -> None:
        self.facts = facts
        self.training: bool = facts["training"]
        self.hooked = hooked
        self.trained = False
        self.scored = False
        self.lives: list[weakref.ref[_Marker]] = []
        self.sizes: list[int] = []  # numbers of elements of the outputs
        made = list(tensors_in(output)) or list(tensors_in(getattr(output, "__dict__", None)))
        self.opaque = not made and bool(facts["grad"])
        for tensor in made:
            if len(self.sizes) < OUTPUTS:
                self.sizes.append(tensor.numel())
            if (node := tensor.grad_fn) is not None and len(self.lives) < OUTPUTS:
                life = _Marker()
                write_note(tensor, FORWARD, life)
                if hooked:
                    node.register_prehook(self._backward_came)
                self.lives.append(weakref.ref(life))

    def _backward_came(self, gradients: object) -> None:
        self.trained = True

    def fate(self, backwards: int) -> str:
        """'' as long as it is open."""
        if self.trained or (not self.hooked and backwards > self.facts["backwards"]):
            return "trained"
        if not self.lives:
            return "unknown" if self.opaque else "graphless"
        return "" if any(life() is not None for life in self.lives) else "dropped"


class _ModeLayers:
    """The layers of a model that behave differently in train and eval mode."""

    __slots__ = ("dropouts", "functions", "noises", "norms")

    def __init__(self, model: nn.Module, functions: int) -> None:
        layers = list(model.modules())
        self.dropouts: list[weakref.ref[nn.Module]] = [weakref.ref(layer) for layer in layers if drops(layer)]
        self.norms: list[weakref.ref[nn.Module]] = [weakref.ref(layer) for layer in layers if keeps_statistics(layer)]
        noisy = {cls for cls in set(map(type, layers)) if draws_in_training(cls)}
        self.noises: list[weakref.ref[nn.Module]] = [weakref.ref(layer) for layer in layers if type(layer) in noisy]
        self.functions = functions  # most calls of dropout functions that were active in one call of the model

    def count(self, call: ModuleCall) -> dict[str, int]:
        """How many were active in a call, and how many idle."""
        active = _active(self.dropouts)
        norms = _active(self.norms)
        noises = _active(self.noises)
        self.functions = max(self.functions, call.dropouts)
        return {
            "active_dropouts": max(active, call.dropouts),
            "active_batch_norms": norms,
            "idle_dropouts": max(len(self.dropouts) - active, self.functions - max(active, call.dropouts)),
            "idle_batch_norms": len(self.norms) - norms,
            "active_noises": noises,
            "idle_noises": len(self.noises) - noises,
        }


class _Held:
    """The models that an optimizer trains."""

    __slots__ = ("ids", "models", "seen", "whole")

    def __init__(self, objects: RunObjects, ids: frozenset[int]) -> None:
        self.ids = ids
        self.seen = len(objects.models)
        self.models: list[int] = []
        self.whole: set[int] = set()  # models of which it holds every parameter, none frozen
        for known, module in objects.living_models():
            parameters = list(module.parameters())
            if any(id(p) in ids for p in parameters):
                self.models.append(known.number)
                if all(id(p) in ids and p.requires_grad for p in parameters):
                    self.whole.add(known.number)


class ForwardObserver(Observer):
    emits = (ModelSeen, Forward, SteppedWhileEvaluating)
    safe_on_shards = True

    def prepare(self) -> None:
        self._pending: dict[int, deque[_Pending]] = {}
        self._latest: _Pending | None = None
        self._scored_inside = False  # a loss function was called inside the running model
        self._mode_layers: dict[int, _ModeLayers] = {}
        self._inputs: dict[int, list[weakref.ref[Tensor]]] = {}
        self._eval_place: WeakKeyDictionary[nn.Module, Place] = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[nn.Module, Place] = WeakKeyDictionary()
        self._backwards = 0
        self._passes = 0
        self._since_step: dict[int, deque[_Pending]] = {}  # per model: its calls with a graph since its last step
        self._held: dict[int, _Held] = {}
        self._moving: set[int] = set()  # optimizers that have stepped with gradients
        self._habits: Counter[tuple[int, Place | None]] = Counter()  # per model and line: training calls in a row
        self._trained: set[tuple[int, int]] = set()  # (optimizer, model) of steps whose gradients came from train mode

    # -- what happens around the calls --

    def watching_resumed(self, nothing: None) -> None:
        self._backwards += 1  # unseen training may be between the last call and the next
        for calls in self._since_step.values():
            calls.clear()
        self._inputs.clear()

    def mode_set(self, change: ModeChange) -> None:
        model = unwrapped(change.module)
        self._refused.pop(model, None)
        if change.place is not None and not change.training:
            self._eval_place[model] = change.place
            parts = (part for part in model.modules() if part.training and any(part.children()))
            if (place := next(filter(None, map(mode_dropped_place, parts)), None)) is not None:
                self._refused[model] = place

    def loader_started(self, start: LoaderStart) -> None:
        self._passes += 1

    def backward_started(self, call: BackwardCall) -> None:
        self._backwards += 1

    def gradients_taken(self, call: BackwardCall) -> None:
        self._backwards += 1

    def loss_called(self, loss: LossCall) -> None:
        self._score(loss.output)

    def decision_made(self, decision: DecisionCall) -> None:
        latest = self._latest
        if latest is not None and decision.input.numel() in latest.sizes:
            latest.scored = True

    def criterion_ended(self, call: ModuleCall) -> None:
        if isinstance(call.output, Tensor):  # its single number is a score
            self._score(call.output)

    def _score(self, loss: Tensor) -> None:
        """A loss belongs to the latest call if both have a graph or neither has: else it is of an earlier call."""
        if loss.dim():
            return
        if self.bus.call is not None:
            self._scored_inside = True
        elif self._latest is not None and bool(self._latest.lives) == loss.requires_grad:
            self._latest.scored = True

    # -- calls --

    def module_call_started(self, call: ModuleCall) -> None:
        self._scored_inside = False
        if self.objects.model(call.module) is not None:
            self._emit_known()

    def module_call_ended(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if call.failed or known is None:
            return
        model, number = unwrapped(call.module), known.number
        mode_layers = self._layers_with_a_mode(call, model, number)
        alone = len(call.args) == 1 and not call.kwargs and isinstance(call.args[0], Tensor)
        inputs = list(call.args) if alone else list(tensors_in((call.args, call.kwargs), limit=16))
        facts = {
            "step": self.bus.step,
            "place": call.place,
            "call": call.number,
            "model": number,
            "name": known.name,
            "training": call.training,
            "grad": call.grad,
            "batch": inputs[0].shape[0] if inputs and inputs[0].dim() else None,
            "same_input": self._same_input(number, inputs),
            "recalibration": call.recalibration,
            "eval_place": self._eval_place.get(model),
            "refused": self._refused.get(model),
            "backwards": self._backwards,
            "passes": self._passes,
            "optimized": call.training and not call.grad and self._is_moved(model),
            **mode_layers.count(call),
        }
        usual = call.training and call.grad and self._habits[number, call.place] >= HABIT and not self.bus.deep
        pending = self._latest = _Pending(facts, call.output, hooked=not usual)
        pending.scored = self._scored_inside
        self._pending[number].append(pending)
        if pending.lives:
            self._since_step[number].append(pending)

    def _layers_with_a_mode(self, call: ModuleCall, model: nn.Module, number: int) -> _ModeLayers:
        known = self._mode_layers.get(number)
        if known is None or self.bus.deep:
            known = self._mode_layers[number] = _ModeLayers(model, 0 if known is None else known.functions)
        if number not in self._pending:
            self._pending[number], self._since_step[number] = deque(), deque(maxlen=REMEMBERED)
            self.bus.emit(model_seen(model, self.bus.step, call.place, number, compiled=call.compiled))
        return known

    def _is_moved(self, model: nn.Module) -> bool:
        """Has an optimizer with some of its parameters stepped with gradients?"""
        ids = {id(parameter) for parameter in model.parameters()}
        return any(not ids.isdisjoint(self.objects.optimizers[number].ids) for number in self._moving)

    def _same_input(self, model: int, inputs: list[Tensor]) -> bool:
        before = self._inputs.get(model)
        self._inputs[model] = [weakref.ref(tensor) for tensor in inputs]
        return bool(inputs) and _identical(before, inputs)

    # -- fates --

    def step_ended(self, call: StepCall) -> None:
        self._emit_known()
        number = self.objects.optimizer(call.optimizer).number
        if number not in self._moving and any(p.grad is not None for p in parameters_of(call.optimizer)):
            self._moving.add(number)
        self._check_modes(call.optimizer)

    def run_ended(self, end: RunEnd) -> None:
        self._emit_known(at_the_end=True)

    def _emit_known(self, *, at_the_end: bool = False) -> None:
        """Emit, in the order of the calls, those whose fate is known."""
        for waiting in self._pending.values():
            while waiting:
                pending = waiting[0]
                fate = pending.fate(self._backwards) or ("unknown" if at_the_end or len(waiting) > WAITING else "")
                if not fate:
                    break
                waiting.popleft()
                if pending.training and pending.lives:
                    line = (pending.facts["model"], pending.facts["place"])
                    self._habits[line] = self._habits[line] + 1 if fate == "trained" else 0
                self.bus.emit(Forward(**pending.facts, fate=fate, scored=pending.scored))  # type: ignore[arg-type]

    def _check_modes(self, optimizer: Optimizer) -> None:
        """Were all forwards behind this step's gradients in eval mode?"""
        known = self.objects.optimizer(optimizer)
        held = self._held.get(known.number)
        if held is None or held.seen != len(self.objects.models) or held.ids != known.ids:
            held = self._held[known.number] = _Held(self.objects, known.ids)
        used: list[_Pending] = []
        for model in held.models:
            if calls := self._since_step.get(model):
                used += [pending for pending in calls if pending.fate(self._backwards) == "trained"]
                calls.clear()
        if any(pending.training for pending in used):
            self._trained.update((known.number, pending.facts["model"]) for pending in used)
            return
        idle = [pending.facts for pending in used if any(pending.facts[name] for name in IDLE)]
        root = self.objects.models[idle[-1]["model"]].ref() if idle else None
        # a head may be left in train mode on purpose
        if root is not None and not any(layer.training for layer in root.modules()):
            self._report_mode(idle[-1], known.number, len(used), held)

    def _report_mode(self, facts: dict[str, Any], optimizer: int, forwards: int, held: _Held) -> None:
        same = ("step", "place", "model", "name", "eval_place", *IDLE)
        self.bus.emit(
            SteppedWhileEvaluating(
                **{name: facts[name] for name in same},
                optimizer=optimizer,
                forwards=forwards,
                trained_before=(optimizer, facts["model"]) in self._trained,
                all_parameters=facts["model"] in held.whole,
            )
        )


def _active(layers: list[weakref.ref[nn.Module]]) -> int:
    return sum(layer.training for ref in layers if (layer := ref()) is not None)


def _identical(before: list[weakref.ref[Tensor]] | None, inputs: list[Tensor]) -> bool:
    same = before is not None and len(before) == len(inputs)
    return same and all(ref() is tensor for ref, tensor in zip(before or (), inputs, strict=True))
