"""Lengths that `pack_padded_sequence` is given, beside where the content of each sequence ends."""

from typing import Any

import torch
from torch import Tensor

from trueloop.event import LengthsStated, Place
from trueloop.measure.stated_lengths import MOST_ROWS, ends_of_content, unit_of
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart, RunEnd
from trueloop.usercode.modules import users_modules

__all__ = ["StatedLengthsObserver"]

MOST = 2**22  # elements of a batch


class StatedLengthsObserver(Observer):
    emits = (LengthsStated,)

    def prepare(self) -> None:
        self._on = False
        self._seen: dict[Place, tuple[list[Tensor], list[Tensor], int]] = {}
        """By line: lengths, ends, and positions of a sequence."""

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"

    def program_ended(self, _: ProgramStart) -> None:
        self._on = False

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or call.name != "_pack_padded_sequence" or call.place is None or not self.bus.grad:
            return
        given: tuple[Any, ...] = (*call.args, *call.kwargs.values())
        if len(given) < 3 or not all(is_plain(tensor) and is_readable(tensor) for tensor in given[:2]):
            return
        padded, lengths, batch_first = given[:3]
        if padded.ndim != 3 or not 0 < padded.numel() <= MOST:
            return
        stated, ends, positions = self._seen.setdefault(call.place, ([], [], 0))
        if sum(map(len, stated)) >= MOST_ROWS:
            return
        found = ends_of_content(padded.detach() if batch_first else padded.detach().transpose(0, 1))
        if found is not None and len(found) == len(lengths):
            stated.append(lengths.detach().cpu().long())
            ends.append(found.cpu())
            self._seen[call.place] = (stated, ends, max(positions, padded.shape[1 if batch_first else 0]))

    def run_ended(self, end: RunEnd) -> None:
        for place, (stated, ends, positions) in self._seen.items():
            found = unit_of(torch.cat(stated), torch.cat(ends)) if stated else None
            if found is not None:
                self.emit(LengthsStated, place, *found, positions, users_modules(place.path))
