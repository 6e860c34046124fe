"""Which parameters of a trained model are frozen, and attempts to freeze that have no effect."""

import weakref
from typing import Final

from torch import Tensor, nn

from trueloop.event import FreezingIgnored, FrozenWeights
from trueloop.measure.tensors import is_plain
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, StateLoad, StepCall
from trueloop.usercode.ownership import MODEL_LIBRARIES

__all__ = ["FreezingObserver"]

LOOK_AT: Final = 2  # step of an optimizer; for attributes also the steps 4, 8, 16 ..: layers are frozen later too
SHOWN: Final = 8
MISSPELT: Final = frozenset({
    "require_grad", "require_grads", "requires_grads", "required_grad", "requires_gradient", "require_gradient",
    "requires_gradients", "requried_grad", "requries_grad", "require_grad_", "requires_grad_", "requiresgrad",
    "require_gradients", "requires_Grad", "requires_grap",
})  # fmt: skip


class FreezingObserver(Observer):
    emits = (FreezingIgnored, FrozenWeights)
    safe_on_shards = True

    def prepare(self) -> None:
        self._loaded: dict[int, weakref.ref[Tensor]] = {}
        self._trained: set[int] = set()  # models that were called in train mode, with gradients
        self._done: set[int] = set()
        self._judged: set[tuple[int, str, str]] = set()
        """Model, part and attribute that was False when it was first seen: one that froze nothing was reported, and one
        beside weights that no optimizer stepped may be left over when they train again on purpose."""
        self._stepped_at: dict[int, int] = {}  # by optimizer: its latest step, of the run

    def state_loading(self, load: StateLoad) -> None:
        self._loaded |= {id(p): weakref.ref(p) for n, p in load.module.named_parameters() if n in load.state}

    def module_call_started(self, call: ModuleCall) -> None:
        if call.grad and call.training and self.bus.deep and (known := self.objects.model(call.module)) is not None:
            self._trained.add(known.number)

    def step_ended(self, call: StepCall) -> None:
        self._stepped_at[self.bus.ordinal("optimizer", call.optimizer)] = self.bus.step

    def step_started(self, call: StepCall) -> None:
        if call.index < LOOK_AT or call.index & (call.index - 1):
            return
        held = self.objects.optimizer(call.optimizer).ids
        for known, model in self.objects.living_models():
            if known.number in self._trained and any(id(p) in held for p in model.parameters()):
                self._ignored(call, model, known.number, known.name)
                if call.index == LOOK_AT and known.number not in self._done:
                    self._done.add(known.number)
                    self._frozen(call, model, known.name)

    def _ignored(self, call: StepCall, model: nn.Module, number: int, name: str) -> None:
        held = self._stepping(call)
        wrong = [(n, p, a) for n, p in model.named_parameters() for a in MISSPELT & vars(p).keys()
                 if vars(p)[a] is False and self._is_new(number, n, a) and _is_trained(p, held)]  # fmt: skip
        if wrong:
            self.emit(FreezingIgnored, call.place, name, wrong[0][2], "parameter",
                      tuple(n for n, _, _ in wrong[:SHOWN]), len(wrong))  # fmt: skip
        for path, module in model.named_modules():
            own = vars(module)
            names = [a for a in ("requires_grad", *MISSPELT) if own.get(a) is False and self._is_new(number, path, a)]
            trained = sum(_is_trained(p, held) for p in module.parameters()) if names else 0
            if trained:
                self.emit(FreezingIgnored, call.place, name, names[0], "module", (path or name,), trained)

    def _stepping(self, call: StepCall) -> set[int]:
        """The parameters of this optimizer, and of optimizers that take turns with it."""
        own = self.objects.optimizer(call.optimizer).number
        since = self._stepped_at.get(own, self.bus.step)
        return {
            i
            for known, _ in self.objects.living_optimizers()
            if known.number == own or self._stepped_at.get(known.number, -1) > since
            for i in known.ids
        }

    def _is_new(self, model: int, part: str, attribute: str) -> bool:
        key = (model, part, attribute)
        known = key in self._judged
        self._judged.add(key)
        return not known

    def _frozen(self, call: StepCall, model: nn.Module, name: str) -> None:
        if type(model).__module__.startswith(MODEL_LIBRARIES):
            return
        norms = {id(p) for m in model.modules() if "norm" in type(m).__name__.lower()
                 for p in m.parameters(recurse=False)}  # fmt: skip
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        if not trained or any(p.ndim >= 2 and id(p) not in norms for _, p in trained):
            return
        ever = {number for known in self.objects.optimizers.values() for number in known.ids}
        initial = [
            (n, p)
            for n, p in model.named_parameters()
            if p.ndim >= 2 and not p.requires_grad and id(p) not in norms and id(p) not in ever
            if (ref := self._loaded.get(id(p))) is None or ref() is not p
        ]
        if initial:
            place = self.objects.optimizer(call.optimizer).place or call.place
            names = tuple(n for n, _ in initial[:SHOWN])
            self.emit(FrozenWeights, place, name, len(trained), names, len(initial), sum(p.numel() for _, p in initial))


def _is_trained(parameter: Tensor, held: set[int]) -> bool:
    """A gradient of zeros is what `zero_grad(set_to_none=False)` leaves of a layer that no longer runs with a graph."""
    gradient = parameter.grad
    if not parameter.requires_grad or gradient is None or id(parameter) not in held:
        return False
    return not is_plain(gradient) or gradient.is_sparse or bool(gradient.any())
