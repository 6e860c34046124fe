"""DataLoaders, when they are built: the line where workers and pinned memory are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from trueloop.taps.moment import BuiltLoader
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap
from trueloop.taps.wire import Wire

__all__ = ["BuiltLoaderTap"]


class BuiltLoaderTap(Tap):
    """Told also while the wire sleeps: it happens once."""

    moments = ("loader_built",)

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self._patch: Patch | None = None

    def install(self) -> None:
        self._patch = Patch(DataLoader, "__init__", self._wrap)

    def remove(self) -> None:
        if self._patch is not None:
            self._patch.undo()

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        wire = self.wire

        def __init__(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
            original(loader, *args, **kwargs)
            if not wire.is_foreign():
                wire.tell("loader_built", BuiltLoader(loader, here(2)))

        return __init__
