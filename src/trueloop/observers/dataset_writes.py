"""Does the loop write into the dataset's own memory? Only a batch without a copy can be that: no collate, no worker."""

import weakref
from collections import Counter
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trueloop.event import BatchRewritten, Place
from trueloop.measure.tensors import evenly_spaced
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LoaderStart, LossCall, ModuleCall, StepCall, tensors_in
from trueloop.taps.random_sources import parts_of

__all__ = ["DatasetWritesObserver"]

BATCHES: Final = 3  # first batches of a loader that are compared after their step
SPACED: Final = 1024  # elements of a tensor that are compared


class _Seen(NamedTuple):
    """A tensor of a batch in the dataset's memory."""

    ref: weakref.ref[Tensor]
    numbers: Tensor  # our own copy of some elements
    loader: int
    dataset: str
    attribute: str
    place: Place | None


class DatasetWritesObserver(Observer):
    emits = (BatchRewritten,)

    def prepare(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Place | None]] = {}
        """Per loader without workers: its dataset, and the place of its latest pass."""
        self._draws: Counter[int] = Counter()
        self._seen: list[_Seen] = []
        self._used: set[int] = set()  # addresses of inputs and targets since the batch was drawn

    def loader_started(self, start: LoaderStart) -> None:
        dataset: Any = start.loader.dataset
        if not start.loader.num_workers and type(dataset).__weakrefoffset__:
            self._known[self.bus.ordinal("loader", start.loader)] = (weakref.ref(dataset), start.place)

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        self._seen.clear()
        number = drawn.number
        if drawn.stacked or number not in self._known or self._draws[number] == BATCHES:
            return
        self._draws[number] += 1
        self._used.clear()
        ref, place = self._known[number]
        dataset = ref()
        stored = {span: name for name, span in map(_span, parts_of(dataset, [])) if span is not None}
        for tensor in tensors_in(drawn.batch):
            within = (name for span, name in stored.items() if _is_plain(tensor) and tensor.data_ptr() in span)
            owner = next(within, None)
            if owner is not None:
                numbers = _spaced(tensor).clone()
                self._seen.append(_Seen(weakref.ref(tensor), numbers, number, type(dataset).__name__, owner, place))

    def module_call_started(self, call: ModuleCall) -> None:
        if self._seen:
            self._used |= {t.data_ptr() for t in tensors_in((call.args, call.kwargs), limit=16) if _is_plain(t)}

    criterion_started = module_call_started

    def loss_called(self, loss: LossCall) -> None:
        if self._seen and _is_plain(loss.target):
            self._used.add(loss.target.data_ptr())

    def step_ended(self, call: StepCall) -> None:
        for seen in self._seen:
            tensor = seen.ref()
            now = _spaced(tensor) if tensor is not None and tensor.data_ptr() in self._used else None
            if now is not None and not torch.equal(now, seen.numbers):
                before, after = float(seen.numbers.max()), float(now.max())
                self.emit(BatchRewritten, seen.place, seen.loader, seen.dataset, seen.attribute, before, after)
        self._seen.clear()


def _is_plain(tensor: Tensor) -> bool:
    """A dense tensor on the host that nobody trains."""
    plain = tensor.layout == torch.strided and tensor.device.type == "cpu" and tensor.numel() > 0
    return plain and tensor.is_floating_point() and not tensor.requires_grad


def _spaced(tensor: Tensor) -> Tensor:
    return evenly_spaced(tensor.detach().reshape(-1), SPACED)


def _span(part: Any) -> tuple[str, range | None]:
    """The addresses of the stored data."""
    value = part.value
    if isinstance(value, Tensor):
        if not _is_plain(value):
            return part.attribute, None
        memory = value.untyped_storage()
        return part.attribute, range(memory.data_ptr(), memory.data_ptr() + memory.nbytes())
    if not hasattr(value, "__array_interface__"):
        return part.attribute, None  # a generator
    first = int(value.__array_interface__["data"][0])
    return part.attribute, range(first, first + value.nbytes)
