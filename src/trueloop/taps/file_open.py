"""Patches `open` and the functions of NumPy that read files without it: which files does the user's code open?"""

import builtins
import io
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import numpy

from trueloop.event import Place
from trueloop.taps.calls import FileOpened
from trueloop.taps.place import is_users, place_in
from trueloop.taps.tap import Patch, Tap

__all__ = ["FileOpenTap"]

MOST: Final = 2000  # files: a folder of pictures needs no more
_NUMPY: Final = ("loadtxt", "genfromtxt", "fromfile")
_OWN: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CODE: Final = (".py", ".pyc", ".pyi", ".so", ".ipynb")


class FileOpenTap(Tap):
    topics = ("file_opened",)

    def install(self) -> None:
        self._seen: set[tuple[str, bool]] = set()
        self.patches = [Patch(owner, "open", self._wrap) for owner in (builtins, io)]
        self.patches += [Patch(numpy, name, self._wrap) for name in _NUMPY]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        bus, seen, published = self.bus, self._seen, self._publish

        def opened(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if args and isinstance(args[0], (str, os.PathLike)) and len(seen) < MOST and not bus.is_foreign():
                mode = kwargs.get("mode", args[1] if len(args) > 1 else "r")
                published(os.fspath(args[0]), isinstance(mode, str) and not set("wax+").isdisjoint(mode))
            return result

        return opened

    def _publish(self, name: Any, writing: bool) -> None:
        if not isinstance(name, str) or name.endswith(_CODE):
            return
        path = os.path.abspath(name)
        if (path, writing) in self._seen:
            return
        self._seen.add((path, writing))
        place = _reader()
        if place is not None and is_users(path) and os.path.isfile(path):
            self.bus.publish("file_opened", FileOpened(path, writing, place))


def _reader() -> Place | None:
    """The user's line that opens the file; None if trueloop opens it."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_OWN):
            return None
        if is_users(name):
            return place_in(frame)
        frame = frame.f_back
    return None
