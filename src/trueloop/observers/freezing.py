"""Which parameters of a trained model are frozen, and attempts to freeze that have no effect."""

import weakref
from typing import Final

from torch import Tensor, nn

from trueloop.event import FreezingIgnored, FrozenWeights
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, StateLoad, StepCall
from trueloop.usercode.ownership import MODEL_LIBRARIES

__all__ = ["FreezingObserver"]

LOOK_AT: Final = 2  # step of an optimizer
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

    def state_loading(self, load: StateLoad) -> None:
        self._loaded |= {id(p): weakref.ref(p) for n, p in load.module.named_parameters() if n in load.state}

    def module_call_started(self, call: ModuleCall) -> None:
        if call.grad and call.training and self.bus.deep and (known := self.objects.model(call.module)) is not None:
            self._trained.add(known.number)

    def step_started(self, call: StepCall) -> None:
        if call.index != LOOK_AT:
            return
        held = self.objects.optimizer(call.optimizer).ids
        for known, model in self.objects.living_models():
            if known.number in self._done or known.number not in self._trained:
                continue
            if any(id(p) in held for p in model.parameters()):
                self._done.add(known.number)
                self._ignored(call, model, known.name, held)
                self._frozen(call, model, known.name)

    def _ignored(self, call: StepCall, model: nn.Module, name: str, held: frozenset[int]) -> None:
        def is_trained(p: Tensor) -> bool:
            return p.requires_grad and p.grad is not None and id(p) in held

        wrong = [(n, p, a) for n, p in model.named_parameters() for a in MISSPELT & vars(p).keys()
                 if vars(p)[a] is False and is_trained(p)]  # fmt: skip
        if wrong:
            self.emit(FreezingIgnored, call.place, name, wrong[0][2], "parameter",
                      tuple(n for n, _, _ in wrong[:SHOWN]), len(wrong))  # fmt: skip
        for path, module in model.named_modules():
            own = vars(module)
            names = [a for a in ("requires_grad", *MISSPELT) if own.get(a) is False]
            trained = sum(map(is_trained, module.parameters())) if names else 0
            if trained:
                self.emit(FreezingIgnored, call.place, name, names[0], "module", (path or name,), trained)

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
