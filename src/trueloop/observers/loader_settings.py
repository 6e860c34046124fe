"""The settings of each loader, emitted once, at its first pass."""

from __future__ import annotations

import os

from torch.utils.data import IterableDataset

from trueloop.event import LoaderSeen, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltLoader, LoaderStart

__all__ = ["LoaderSettingsObserver"]


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
        self.emit(
            LoaderSeen,
            self._built.get(self.bus.ordinal("built loader", loader)) or start.place,
            loader=number,
            workers=loader.num_workers,
            cores=_cores(),
            batch_size=loader.batch_size,
            pinned=loader.pin_memory,
            stream=isinstance(loader.dataset, IterableDataset),
        )


def _cores() -> int:
    """Cores that this process may use: a container or a batch system often gives fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # not available on macOS and Windows
