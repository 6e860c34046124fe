"""Frame -> the user's line: the nearest frame that is neither torch's, nor a library's, nor ours."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType
from typing import Final

from trueloop.event import Place

__all__ = ["claim", "frame_here", "here", "is_users", "place_in"]

_LIBRARY: Final = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }
)
_LIBRARY_FOLDERS: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_CELLS: Final = ("<ipython", "<command-", "<stdin")
"""What notebooks and the prompt call a piece of the user's code; every other name in angle brackets is made by a library."""

_claimed: list[str] = []
_users: dict[str, bool] = {}
_places: dict[tuple[CodeType, int], Place] = {}


def claim(folder: str) -> None:
    """Count everything below this folder as the user's, though it may be installed as a library."""
    _claimed.append(os.path.realpath(folder) + os.sep)
    _users.clear()


def is_users(filename: str) -> bool:
    """Was this file written by the user, as far as one can tell from where it lies?"""
    known = _users.get(filename)
    if known is None:
        known = _users[filename] = _judge(filename)
    return known


def _judge(filename: str) -> bool:
    if filename.startswith("<"):
        return filename.startswith(_CELLS)
    path = os.path.realpath(filename)
    if any(path.startswith(folder) for folder in _claimed):
        return True
    return not path.startswith(_LIBRARY) and not any(folder in path for folder in _LIBRARY_FOLDERS)


def frame_here(depth: int = 1) -> FrameType | None:
    """The nearest frame of the user's, from the caller outwards."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def here(depth: int = 1) -> Place | None:
    """The user's line that is being executed."""
    frame = frame_here(depth + 1)
    return None if frame is None else place_in(frame)


def place_in(frame: FrameType) -> Place:
    """The line a frame stands at. Kept, because the same few lines come again at every step."""
    key = (frame.f_code, frame.f_lineno)
    place = _places.get(key)
    if place is None:
        name = key[0].co_filename
        place = _places[key] = Place(name if name.startswith("<") else os.path.abspath(name), key[1], key[0].co_qualname)
    return place
