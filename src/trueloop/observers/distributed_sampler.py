"""Passes over loaders with a shuffling DistributedSampler: its epoch, and whether the pass before was trained on."""

from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from trueloop.event import Place, SamplerPass
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BatchDrawn, LoaderStart

__all__ = ["DistributedSamplerObserver"]


class DistributedSamplerObserver(Observer):
    emits = (SamplerPass,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._trained: dict[Place | None, int] = {}
        """Steps taken on the batches of the latest pass that began at a place. Empty as long as there is no such
        sampler."""
        self._places: dict[int, Place | None] = {}  # where the latest pass over a loader began
        self._last: int | None = None  # the loader of the latest batch
        self._step = 0

    def loader_started(self, start: LoaderStart) -> None:
        sampler, attribute = _sampler_of(start.loader)
        if sampler is None:
            return
        self._count()
        loader = self.bus.ordinal("loader", start.loader)
        self._places[loader] = start.place
        dataset, trained = self._number(sampler.dataset, loader), self._trained.get(start.place, 0)
        settings = (sampler.epoch, sampler.seed, sampler.num_replicas)
        self.emit(SamplerPass, start.place, loader, dataset, *settings, trained, attribute)
        self._trained[start.place] = 0

    def batch_drawn(self, drawn: BatchDrawn) -> None:
        if not self._trained:
            return
        self._count()
        self._last = None if drawn.loader is None else self.bus.ordinal("loader", drawn.loader)

    def _count(self) -> None:
        """Steps since the previous batch belong to that one."""
        if self._last in self._places:
            self._trained[self._places[self._last]] += self.bus.step - self._step
        self._step = self.bus.step

    def _number(self, dataset: object, loader: int) -> int:
        """A number for the dataset; for a plain list, the number of loaders."""
        try:
            return self.bus.ordinal("dataset", dataset)
        except TypeError:
            return -1 - loader


def _sampler_of(loader: DataLoader[Any]) -> tuple[DistributedSampler[Any] | None, str]:
    """The DistributedSampler of a loader, if it shuffles as PyTorch's own does, and where the loader keeps it."""
    inner = getattr(loader.batch_sampler, "sampler", None)
    for attribute, one in (("sampler", loader.sampler), ("batch_sampler.sampler", inner)):
        if isinstance(one, DistributedSampler) and type(one).__iter__ is DistributedSampler.__iter__ and one.shuffle:
            return one, attribute
    return None, ""
