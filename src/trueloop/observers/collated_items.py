"""Inputs and labels that a collate function of the user's own separates: tried once, in a forked copy."""

from typing import Any, Final

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from trueloop.event import CollatedApart
from trueloop.measure.collated import Separated, separated
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LoaderStart
from trueloop.taps.fork import CannotFork, run_in_fork

__all__ = ["CollatedItemsObserver"]

MOST_LOADERS: Final = 4
ITEMS: Final = 32
LIMIT: Final = 3.0  # seconds on a busy machine


class CollatedItemsObserver(Observer):
    emits = (CollatedApart,)

    def prepare(self) -> None:
        self._tried: set[int] = set()

    @torch.no_grad()
    def loader_started(self, start: LoaderStart) -> None:
        loader, number = start.loader, self.bus.ordinal("loader", start.loader)
        known: Any = loader.collate_fn
        if known is default_collate or number in self._tried or len(self._tried) >= MOST_LOADERS:
            return
        if loader.batch_size is None or isinstance(loader.dataset, IterableDataset):
            return
        self._tried.add(number)
        try:
            found = run_in_fork(lambda: _try(loader), LIMIT)
        except CannotFork:
            return
        if found is not None:
            self.emit(CollatedApart, start.place, getattr(known, "__name__", type(known).__name__), *found)


def _try(loader: DataLoader[Any]) -> Separated | None:
    """Runs in a forked copy."""
    dataset: Any = loader.dataset
    items = [dataset[index] for index in range(min(ITEMS, len(dataset)))]
    return separated(loader.collate_fn(list(items)), [loader.collate_fn([item]) for item in items])
