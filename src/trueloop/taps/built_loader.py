"""DataLoaders, when they are built: the line where workers and pinned memory are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from trueloop.taps.bus import Bus
from trueloop.taps.calls import BuiltLoader
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap

__all__ = ["BuiltLoaderTap"]


class BuiltLoaderTap(Tap):
    """Told also while the bus sleeps: it happens once."""

    moments = ("loader_built",)

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._patch: Patch | None = None

    def install(self) -> None:
        self._patch = Patch(DataLoader, "__init__", self._wrap)

    def remove(self) -> None:
        if self._patch is not None:
            self._patch.undo()

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def __init__(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
            original(loader, *args, **kwargs)
            if not bus.is_foreign():
                bus.tell("loader_built", BuiltLoader(loader, here(2)))

        return __init__
