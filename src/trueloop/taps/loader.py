"""Patches DataLoader iteration: each pass over a loader, and each batch. The loader itself is not changed."""

from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from torch.utils.data import DataLoader

from trueloop.event import Place
from trueloop.taps.bus import Bus
from trueloop.taps.calls import BatchDrawn, LoaderStart
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap, is_unwatched
from trueloop.torch_private.dataloader import LoaderIterator, stacks_samples

__all__ = ["LoaderTap"]

TIMED_STEPS: Final = 256  # Steps in which the loading thread's CPU time is measured, at half a microsecond each


class LoaderTap(Tap):
    topics = ("loader_started", "batch_drawn")

    def __init__(self, bus: Bus, on_start: Callable[[Place | None], None]) -> None:
        super().__init__(bus)
        self._on_start = on_start  # Called even while the bus sleeps: a new pass may be a validation, worth watching
        self._loaders: WeakKeyDictionary[Any, tuple[ref[DataLoader[Any]], int]] = WeakKeyDictionary()
        """The loader of each iterator, which does not know it."""

    def install(self) -> None:
        self.patches = [Patch(DataLoader, "__iter__", self._wrap_iter)]
        if self.bus.has_subscribers("batch_drawn"):
            self.patches.append(Patch(LoaderIterator, "__next__", self._wrap_next))

    def _wrap_iter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __iter__(loader: DataLoader[Any]) -> Any:
            if not self.bus.is_foreign():
                place = here(2)
                self._on_start(place)
                if not is_unwatched(self.bus):
                    self.bus.publish("loader_started", LoaderStart(loader, place))
            iterator = original(loader)
            number = self.bus.ordinal("loader", loader)
            self._loaders[iterator] = (ref(loader), number)
            if self.bus.step_log is not None and not self.bus.is_foreign():
                self.bus.step_log.pass_started(loader, number)
            return iterator

        return __iter__

    def _wrap_next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __next__(iterator: Any) -> Any:
            if is_unwatched(self.bus):
                return self._counted(iterator, original(iterator))
            computed = thread_time_ns() if self.bus.step < TIMED_STEPS else None
            began = perf_counter_ns()
            self.bus.fetching = True
            try:
                batch = original(iterator)
            finally:
                self.bus.fetching = False
            waited = perf_counter_ns() - began
            loader, number = self._loaders.get(iterator, (None, None))
            computed = None if computed is None else thread_time_ns() - computed
            living, stacked = None if loader is None else loader(), stacks_samples(iterator)
            self.bus.publish("batch_drawn", BatchDrawn(living, batch, stacked, waited, computed, number))
            return self._counted(iterator, batch)

        return __next__

    def _counted(self, iterator: Any, batch: Any) -> Any:
        """The batch; the curve of the run counts it, for the position in the epoch."""
        if self.bus.step_log is not None and not self.bus.is_foreign() and iterator in self._loaders:
            self.bus.step_log.batch_drawn(self._loaders[iterator][1])
        return batch
