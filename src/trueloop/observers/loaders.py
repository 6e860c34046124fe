"""Passes over loaders, the mode changes between them, and the settings of each loader, once, at its first pass."""

import os

from torch.utils.data import DataLoader, IterableDataset

from trueloop.event import EpochStarted, LoaderSeen, ModeSet, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltLoader, LoaderStart, ModeChange
from trueloop.taps.names import names_of

__all__ = ["LoaderObserver", "LoaderSettingsObserver", "ModeObserver"]


class LoaderObserver(Observer):
    emits = (EpochStarted,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._passes: dict[int, int] = {}

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        self._passes[number] = self._passes.get(number, 0) + 1
        names = names_of((start.loader, start.loader.dataset)) if self._passes[number] == 1 else ()
        self.emit(EpochStarted, start.place, number, _length(start.loader), self._passes[number], names)


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


class LoaderSettingsObserver(Observer):
    emits = (LoaderSeen,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._built: dict[int, Place | None] = {}  # where each was built, by its number
        self._reported: set[int] = set()

    def loader_built(self, built: BuiltLoader) -> None:
        self._built[self.bus.ordinal("built loader", built.loader)] = built.place

    def loader_started(self, start: LoaderStart) -> None:
        loader, number = start.loader, self.bus.ordinal("loader", start.loader)
        if number in self._reported:
            return
        self._reported.add(number)
        place = self._built.get(self.bus.ordinal("built loader", loader)) or start.place
        stream = isinstance(loader.dataset, IterableDataset)
        settings = (loader.num_workers, _cores(), loader.batch_size, loader.pin_memory)
        self.emit(LoaderSeen, place, number, *settings, stream)


def _cores() -> int:
    """Cores that this process may use: a container or a batch system often gives fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # not available on macOS and Windows
