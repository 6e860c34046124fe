"""Patches DataLoader.__init__: the line that sets workers and pinned memory."""

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from trueloop.taps.calls import BuiltLoader
from trueloop.taps.place import here
from trueloop.taps.tap import Patch, Tap

__all__ = ["LoaderInitTap"]


class LoaderInitTap(Tap):
    """Publishes even while the bus sleeps: it happens once."""

    topics = ("loader_built",)

    def install(self) -> None:
        self.patches = [Patch(DataLoader, "__init__", self._wrap)]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus = self.bus

        def __init__(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
            original(loader, *args, **kwargs)
            if not bus.is_foreign():
                bus.publish("loader_built", BuiltLoader(loader, here(2)))

        return __init__
