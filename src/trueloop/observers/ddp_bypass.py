"""DistributedDataParallel bypassed: its inner module is called directly, or has parameters that the wrapper does not
know.

The wrapper synchronizes gradients in a backward only if its own forward came before. A backward through a wrapped model
whose wrapper was not called leaves each rank with its own gradients. A step after only such backwards is reported.
"""

import weakref
from typing import Final, Literal

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trueloop.event import GradientsNotExchanged, Place
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import is_plain
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BuiltWrapper, CollectiveCall, ModuleCall, StepCall, tensors_in
from trueloop.torch_private.tensors import tensor_version

__all__ = ["DDPBypassObserver"]

STEPS: Final = 2  # steps without synchronization before it is reported: the first may be a warm-up


class _Wrapped:
    """One wrapped model. Holds numbers and weak references only."""

    def __init__(self, built: BuiltWrapper) -> None:
        inner: nn.Module = built.wrapper.module
        ignored = set(getattr(built.wrapper, "parameters_to_ignore", ()))
        self.inner = weakref.ref(inner)
        self.name = type(inner).__name__
        self.place, self.ranks = built.place, len(built.members)
        self.parts = {id(part) for part in inner.modules()}
        named = [(name, p) for name, p in inner.named_parameters() if name not in ignored]
        self.ignored = ignored
        self.exchanged = {id(p): weakref.ref(p) for _, p in named if p.requires_grad}
        self.frozen = {id(p): weakref.ref(p) for _, p in named if not p.requires_grad}
        self.called_inside: Place | None = None
        """Where the inner module was last called directly, with a graph, since the last backward."""
        self.called = False
        self.before: list[tuple[int, int]] = []
        self.place_inside: Place | None = None
        self.alone = self.together = self.by_hand = False
        """Since the last step: a backward without synchronization, one with it, a synchronization by the user."""
        self.steps = self.strange_steps = 0
        self.moved_by: dict[int, bool] = {}  # by the number of the optimizer

    def gradients(self) -> list[tuple[int, int]]:
        """Identity and version of each gradient: a backward changes them."""
        inner = self.inner()
        gradients = () if inner is None else (p.grad for p in inner.parameters())
        return [(id(g), -1 if g is None else tensor_version(g)) for g in gradients]


class DDPBypassObserver(Observer):
    emits = (GradientsNotExchanged,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._wrapped: dict[int, _Wrapped] = {}  # by identity of the wrapper; removed when the wrapper is freed

    def wrapper_built(self, built: BuiltWrapper) -> None:
        key, known = id(built.wrapper), self._wrapped
        known[key] = _Wrapped(built)
        weakref.finalize(built.wrapper, known.pop, key, None).atexit = False

    def watching_resumed(self, nothing: None) -> None:
        for wrapped in self._wrapped.values():
            wrapped.together, wrapped.called_inside = True, None

    # -- calls --

    def wrapper_called(self, wrapper: DistributedDataParallel) -> None:
        wrapped = self._wrapped.get(id(wrapper))
        if wrapped is not None:
            wrapped.called = True

    def module_call_started(self, call: ModuleCall) -> None:
        if self._wrapped and call.grad and call.training:
            for wrapped in self._wrapped.values():
                if id(call.module) in wrapped.parts:
                    wrapped.called_inside = call.place

    def backward_started(self, call: BackwardCall) -> None:
        for wrapped in self._wrapped.values():
            wrapped.together = wrapped.together or wrapped.called
            wrapped.before = wrapped.gradients() if wrapped.called_inside is not None and not wrapped.called else []

    def backward_ended(self, call: BackwardCall) -> None:
        for wrapped in self._wrapped.values():
            if wrapped.before and wrapped.gradients() != wrapped.before:
                wrapped.alone, wrapped.place_inside = True, wrapped.called_inside
            wrapped.called, wrapped.called_inside, wrapped.before = False, None, []

    def collective_called(self, call: CollectiveCall) -> None:
        """The user may synchronize the gradients another way."""
        for wrapped in self._wrapped.values():
            inner = wrapped.inner()
            if inner is None or (not wrapped.alone and not wrapped.strange_steps and not self.bus.deep):
                continue
            gradients = {p.grad.data_ptr() for p in inner.parameters() if p.grad is not None and type(p.grad) is Tensor}
            given = [t for t in tensors_in((call.args, dict(call.kwargs))) if is_plain(t)]
            total = sum(p.numel() for p in inner.parameters())
            if any(t.data_ptr() in gradients for t in given) or 2 * sum(t.numel() for t in given) >= total > 1:
                wrapped.by_hand = True

    # -- steps --

    def step_started(self, call: StepCall) -> None:
        if not self._wrapped:
            return
        chosen = not call.index & (call.index - 1)
        for wrapped in self._wrapped.values():
            inner = wrapped.inner()
            if inner is None or not self._moves(call, wrapped, inner, anew=chosen):
                continue  # another model's step
            if wrapped.alone and not wrapped.together and not wrapped.by_hand:
                self._count_alone(wrapped)
            elif chosen and call.index and not wrapped.by_hand:
                self._find_unknown_parameters(wrapped, inner, {id(p) for p in parameters_of(call.optimizer)})
            wrapped.alone = wrapped.together = wrapped.by_hand = False

    def _moves(self, call: StepCall, wrapped: _Wrapped, inner: nn.Module, *, anew: bool) -> bool:
        """Does the optimizer hold parameters of the wrapped model? Looked up on a few steps only."""
        number = self.bus.ordinal("optimizer", call.optimizer)
        if anew or number not in wrapped.moved_by:
            held = {id(p) for p in parameters_of(call.optimizer)}
            wrapped.moved_by[number] = not held.isdisjoint(map(id, inner.parameters()))
        return wrapped.moved_by[number]

    def _count_alone(self, wrapped: _Wrapped) -> None:
        wrapped.steps += 1
        if wrapped.steps == STEPS:
            step, place = self.bus.step, wrapped.place_inside
            self.bus.emit(GradientsNotExchanged(step, place, wrapped.name, "called", (), wrapped.steps, wrapped.ranks))

    def _find_unknown_parameters(self, wrapped: _Wrapped, inner: nn.Module, held: set[int]) -> None:
        """Parameters with a gradient that the wrapper did not see when it was built, or saw frozen."""
        named = [(name, p) for name, p in inner.named_parameters() if id(p) in held and name not in wrapped.ignored]
        trained = [(name, p) for name, p in named if p.requires_grad and p.grad is not None]
        strange = [(name, _is(wrapped.frozen, p)) for name, p in trained if not _is(wrapped.exchanged, p)]
        wrapped.strange_steps += bool(strange)
        if strange and wrapped.strange_steps == STEPS:
            how: Literal["thawed", "replaced"] = "thawed" if all(frozen for _, frozen in strange) else "replaced"
            names = tuple(name for name, _ in strange)
            self.emit(GradientsNotExchanged, wrapped.place, wrapped.name, how, names, STEPS, wrapped.ranks)


def _is(known: dict[int, weakref.ref[nn.Parameter]], parameter: Tensor) -> bool:
    ref = known.get(id(parameter))
    return ref is not None and ref() is parameter
