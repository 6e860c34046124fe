"""Inputs and targets from two loaders: the model's input from one, the target of its loss from another."""

import weakref
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler

from trueloop.event import LoadersOutOfSync, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LoaderStart, LossCall, ModuleCall, tensors_in

__all__ = ["LoaderPairsObserver"]

PAIRS: Final = 2  # such batches before it is reported: one may be a warm-up


@dataclass(slots=True)
class _SingleTensorLoader:
    """A shuffling loader that yields one tensor at a time, and its latest batch."""

    order: bytes  # state of the generator behind its order, when its pass began
    samples: int
    place: Place | None
    latest: weakref.ref[Tensor] | None = None


class LoaderPairsObserver(Observer):
    emits = (LoadersOutOfSync,)

    def prepare(self) -> None:
        self._loaders: dict[int, _SingleTensorLoader] = {}
        self._input: int | None = None  # the loader behind the latest input of a model
        self._pairs: Counter[tuple[int, int]] = Counter()

    def loader_started(self, start: LoaderStart) -> None:
        loader = start.loader
        if type(loader.sampler) is RandomSampler and not loader.sampler.replacement:
            loader_state = _SingleTensorLoader(_order(loader), len(loader.sampler), start.place)
            self._loaders[self.bus.ordinal("loader", loader)] = loader_state

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if not self.bus.deep or drawn.number is None or len(self._loaders) < 2:
            return
        loader_state = self._loaders.get(drawn.number)
        tensors = list(tensors_in(drawn.batch, limit=2))
        if loader_state is not None:
            loader_state.latest = weakref.ref(tensors[0]) if len(tensors) == 1 else None

    def module_call_started(self, call: ModuleCall) -> None:
        if self.bus.deep and len(self._loaders) > 1:
            given = next(tensors_in((call.args, call.kwargs), limit=4), None)
            known = given is not None and self.objects.model(call.module) is not None
            self._input = self._loader_of(given) if given is not None and known else self._input

    def loss_called(self, loss: LossCall) -> None:
        if not self.bus.deep or self._input is None or not loss.output.requires_grad:
            return
        giver, self._input = self._input, None
        target = self._loader_of(loss.target)
        if target is None or target == giver:
            return
        inputs, targets = self._loaders[giver], self._loaders[target]
        if inputs.samples != targets.samples or inputs.order == targets.order:
            return
        self._pairs[giver, target] += 1
        if self._pairs[giver, target] == PAIRS:
            self.emit(LoadersOutOfSync, loss.place, giver, target, inputs.samples, PAIRS, inputs.place)

    def _loader_of(self, tensor: Tensor) -> int | None:
        """The loader whose latest batch this is, or was copied or viewed from."""
        for number, loader_state in self._loaders.items():
            latest = loader_state.latest() if loader_state.latest is not None else None
            if latest is not None and (latest is tensor or _same_elements(latest, tensor)):
                return number
        return None


def _order(loader: DataLoader[Any]) -> bytes:
    generator = getattr(loader.sampler, "generator", None)
    state = torch.get_rng_state() if generator is None else generator.get_state()
    return blake2b(state.numpy().tobytes(), digest_size=16).digest()


def _same_elements(latest: Tensor, tensor: Tensor) -> bool:
    readable = tensor.layout == torch.strided and not tensor.is_meta and not latest.is_meta
    if latest.numel() != tensor.numel() or not latest.numel() or not readable:
        return False
    if latest.device == tensor.device and latest.dtype == tensor.dtype:
        return latest.data_ptr() == tensor.data_ptr()
    with torch.no_grad():
        return torch.equal(latest.detach().reshape(-1).to(tensor.device, tensor.dtype), tensor.detach().reshape(-1))
