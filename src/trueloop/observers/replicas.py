"""Copies of a model on several ranks: how they are kept equal, and samples of their values, to check it."""

import weakref
from collections.abc import Iterable, Iterator
from typing import Final, Literal

import torch
from torch import Tensor

from trueloop.event import GradientsShared, ParametersSampled, Place, SampledParameter
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import is_plain
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, BuiltWrapper, CollectiveCall, Joined, RunEnd, StepCall, tensors_in

__all__ = ["ReplicaObserver"]

VALUES: Final = 4  # elements of each parameter that are compared between ranks
PARAMETERS: Final = 64  # parameters of an optimizer to sample, the first ones: ranks drift apart everywhere
HANDED_OUT: Final = ("broadcast", "broadcast_object_list", "scatter", "scatter_object_list")
SWAPPED: Final = ("all_to_all", "all_to_all_single")


class ReplicaObserver(Observer):
    emits = (GradientsShared, ParametersSampled)
    safe_on_shards = True

    def prepare(self) -> None:
        self._rank: int | None = None
        self._by: Literal["", "DistributedDataParallel", "all_reduce"] = ""
        self._members: tuple[int, ...] = ()
        self._place: Place | None = None
        self._sharded = self._averaged = self._swapped = False
        self._broadcasts = 0
        self._fresh = False  # a backward came since the last step: what is exchanged now are gradients
        self._weights: set[int] = set()  # addresses of the weights when they were last sampled
        self._total = 0
        self._exchanged: dict[int, weakref.ref[Tensor]] = {}  # parameters whose gradients are exchanged

    def group_joined(self, joined: Joined) -> None:
        self._rank = joined.rank

    def wrapper_built(self, built: BuiltWrapper) -> None:
        self._by, self._members, self._place = "DistributedDataParallel", built.members, built.place
        ignored = getattr(built.wrapper, "parameters_to_ignore", ())
        self._note(p for name, p in built.wrapper.module.named_parameters() if p.requires_grad and name not in ignored)

    def backward_ended(self, call: BackwardCall) -> None:
        self._fresh = True

    def run_ended(self, end: RunEnd) -> None:
        if self._rank is not None:
            seen = (self._sharded, self._averaged, self._swapped, self._broadcasts)
            self.emit(GradientsShared, self._place, self._rank, self._by, self._members, *seen)

    # -- what is exchanged --

    def collective_called(self, call: CollectiveCall) -> None:
        if call.name in SWAPPED:
            self._swapped = True
        elif (
            call.name in HANDED_OUT and self.bus.step and not any(t.data_ptr() in self._weights for t in _tensors(call))
        ):
            self._broadcasts += 1
        elif self._fresh and self.bus.deep:
            self._find_gradients(call)
        elif not self._fresh and self.bus.step and self._is_weight(call):
            self._averaged = True

    def _find_gradients(self, call: CollectiveCall) -> None:
        held = [p for _, optimizer in self.objects.living_optimizers() for p in parameters_of(optimizer)]
        given = _tensors(call)
        sent = {tensor.data_ptr() for tensor in given}
        whole = _is_most_of(given, sum(p.numel() for p in held))
        found = [p for p in held if whole or (p.grad is not None and _is_plain(p.grad) and p.grad.data_ptr() in sent)]
        if found and not self._by:
            self._by, self._members, self._place = "all_reduce", call.members, call.place
        self._note(found)

    def _note(self, parameters: Iterable[Tensor]) -> None:
        self._exchanged.update((id(parameter), weakref.ref(parameter)) for parameter in parameters)

    def _is_weight(self, call: CollectiveCall) -> bool:
        """A weight itself, or a buffer that most of them fit into."""
        given = _tensors(call)
        return any(tensor.data_ptr() in self._weights for tensor in given) or _is_most_of(given, self._total)

    # -- some of the numbers --

    def step_started(self, call: StepCall) -> None:
        if self._rank is None:
            return
        self._fresh = False
        if call.index & (call.index - 1):
            return
        held = list(parameters_of(call.optimizer))
        self._sharded = self._sharded or not all(map(_is_plain, held))
        self._weights = {p.data_ptr() for p in held if _is_plain(p)}
        self._total = sum(p.numel() for p in held)
        known = self.objects.optimizer(call.optimizer)
        sampled = tuple(self._sampled(held[:PARAMETERS]))
        self.emit(ParametersSampled, call.place, self._rank, known.number, known.name, call.index, sampled)

    def _sampled(self, parameters: list[Tensor]) -> Iterator[SampledParameter]:
        for number, parameter in enumerate(parameters):
            if _is_plain(parameter) and parameter.is_floating_point() and parameter.numel() and not parameter.is_meta:
                with torch.no_grad():
                    flat = parameter.detach().reshape(-1)
                    values = flat[:: max(1, flat.numel() // VALUES)][:VALUES].double().tolist()
                name = self.objects.name_of(parameter) or f"parameter {number}"
                ref = self._exchanged.get(id(parameter))
                exchanged = ref is not None and ref() is parameter
                yield SampledParameter(name, tuple(parameter.shape), tuple(values), exchanged)


def _tensors(call: CollectiveCall) -> list[Tensor]:
    return [tensor for tensor in tensors_in((call.args, dict(call.kwargs))) if _is_plain(tensor)]


def _is_plain(tensor: Tensor) -> bool:
    """Complete on this rank: not a shard, not a view of one."""
    return is_plain(tensor) and tensor.layout is torch.strided


def _is_most_of(given: list[Tensor], total: int) -> bool:
    """Do the tensors hold at least half as many elements as the model?"""
    return total > 1 and 2 * sum(tensor.numel() for tensor in given) >= total
