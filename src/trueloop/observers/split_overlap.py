"""Loaders that draw from one dataset by index: the indices that two of them have in common.

Subsets, random splits and index samplers list their indices, so an overlap is visible before a sample is drawn, also
where augmentation changes the samples.
"""

import weakref
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary

from torch.utils import data

from trueloop.event import Place, RowsShared
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltLoader, LoaderStart

__all__ = ["SplitOverlapObserver"]

LOADERS: Final = 16  # loaders that a new one is compared with
LARGEST: Final = 5_000_000  # most indices of a loader to compare: a second's work, once


class SplitOverlapObserver(Observer):
    emits = (RowsShared,)

    def prepare(self) -> None:
        self._built: WeakKeyDictionary[data.DataLoader[Any], Place] = WeakKeyDictionary()
        self._started: dict[int, weakref.ref[data.DataLoader[Any]]] = {}

    def loader_built(self, built: BuiltLoader) -> None:
        if built.place is not None:
            self._built[built.loader] = built.place

    def loader_started(self, start: LoaderStart) -> None:
        number = self.bus.ordinal("loader", start.loader)
        if number in self._started:
            return
        living = [(n, loader) for n, ref in self._started.items() if (loader := ref()) is not None][-LOADERS:]
        self._started = {n: weakref.ref(loader) for n, loader in living} | {number: weakref.ref(start.loader)}
        if isinstance(start.loader.dataset, data.IterableDataset):
            return
        base = _base(start.loader.dataset)
        of_same = [(n, loader) for n, loader in living if _base(loader.dataset) is base]
        own = _numbers(start.loader) if of_same else None
        for n, loader in of_same:
            others = _numbers(loader)
            if own is not None and others is not None and own != others and (shared := len(own & others)):
                name, built = type(base).__name__, self._built.get(start.loader)
                self.emit(RowsShared, start.place, n, number, name, len(others), len(own), shared, built)


def _base(dataset: Any) -> Any:
    """The dataset below the subsets."""
    while isinstance(dataset, data.Subset):
        dataset = dataset.dataset
    return dataset


def _numbers(loader: data.DataLoader[Any]) -> set[int] | None:
    """The indices, in the dataset at the bottom, that a loader draws; None where they are unknown."""
    drawn = _drawn(loader)
    dataset: Any = loader.dataset
    while isinstance(dataset, data.Subset) and drawn is not None:
        indices = dataset.indices
        drawn = [indices[number] for number in drawn]
        dataset = dataset.dataset
    return None if drawn is None else {int(number) for number in drawn}


def _drawn(loader: data.DataLoader[Any]) -> Iterable[int] | None:
    batches = loader.batch_sampler
    plain = batches if type(batches) is data.BatchSampler else None
    sampler: Any = loader.sampler if batches is None else getattr(plain, "sampler", None)
    if type(sampler) is data.SubsetRandomSampler:
        indices: Any = sampler.indices
        return indices if len(indices) <= LARGEST else None
    if isinstance(sampler, (list, tuple, range)):
        return sampler if len(sampler) <= LARGEST else None
    dataset: Any = loader.dataset
    everything = type(sampler) in (data.RandomSampler, data.SequentialSampler)  # with weights, some may never come
    return range(len(dataset)) if everything and len(dataset) <= LARGEST else None
