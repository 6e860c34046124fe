"""Passes over loaders, and the mode changes between them."""

from __future__ import annotations

from torch.utils.data import DataLoader

from trueloop.event import EpochStarted, ModeSet
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LoaderStart, ModeChange

__all__ = ["LoaderObserver", "ModeObserver"]


class LoaderObserver(Observer):
    emits = (EpochStarted,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._passes: dict[int, int] = {}

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        self._passes[number] = self._passes.get(number, 0) + 1
        self.emit(EpochStarted, start.place, loader=number, batches=_length(start.loader), passes=self._passes[number])


class ModeObserver(Observer):
    emits = (ModeSet,)
    safe_on_shards = True

    def mode_set(self, change: ModeChange) -> None:
        number = self.bus.ordinal("model", change.module)
        self.emit(ModeSet, change.place, number, type(change.module).__name__, change.training)


def _length(loader: DataLoader[object]) -> int | None:
    try:
        return len(loader)
    except TypeError:  # a stream has no length
        return None
