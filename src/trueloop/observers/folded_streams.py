"""Long texts that are cut into streams: do the symbols of a stream follow one another in the text?

`text.view(-1, streams)` writes the text row by row, so each stream takes every n-th symbol. Seen where input and target
share their memory: the target of each symbol lies a complete row further on, and the memory is the text in its order.
"""

import weakref
from typing import Final

import torch
from torch import Tensor

from trueloop.event import StreamsFolded
from trueloop.measure.symbol_order import dependence
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LossCall, ModuleCall, tensors_in

__all__ = ["FoldedStreamsObserver"]

CALLS: Final = 4  # training calls of a model that are looked at
LONGEST: Final = 300_000  # symbols of the text that are read
LEAST: Final = 2000


class FoldedStreamsObserver(Observer):
    emits = (StreamsFolded,)

    def prepare(self) -> None:
        self._left: dict[int, int] = {}
        self._input: weakref.ref[Tensor] | None = None

    def module_call_started(self, call: ModuleCall) -> None:
        self._input = None
        known = self.objects.model(call.module) if call.grad and call.training else None
        if known is None or self._left.get(known.number, CALLS) <= 0:
            return
        self._left[known.number] = self._left.get(known.number, CALLS) - 1
        given = next(iter(tensors_in(call.args)), None)
        if given is not None and _are_symbols(given) and given.ndim == 2 and given.shape[1] > 1:
            self._input = weakref.ref(given)

    def loss_called(self, loss: LossCall) -> None:
        given = None if self._input is None else self._input()
        self._input = None
        target = loss.target
        if given is None or not _are_symbols(target) or target.dtype != given.dtype or target.numel() != given.numel():
            return
        if given.untyped_storage().data_ptr() != target.untyped_storage().data_ptr() or given.stride(1) != 1:
            return
        row, ahead = given.stride(0), target.storage_offset() - given.storage_offset()
        length = given.untyped_storage().nbytes() // given.element_size()
        if ahead == row > 1 and length >= LEAST:
            text = given.detach().as_strided((min(length, LONGEST),), (1,), 0)
            self.emit(StreamsFolded, loss.place, row, length, dependence(text, 1), dependence(text, row))


def _are_symbols(tensor: Tensor) -> bool:
    whole = tensor.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
    return whole and is_plain(tensor) and is_readable(tensor) and tensor.is_cpu
