"""Frame -> the user's line: the nearest frame outside of torch, libraries and trueloop."""

import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Final

from trueloop.event import Place
from trueloop.usercode.ownership import claim, is_users

__all__ = [
    "OVERRIDES",
    "UNSEEN",
    "caller_of",
    "claim",
    "frame_here",
    "full_name",
    "here",
    "is_direct",
    "is_users",
    "outer_frames",
    "place_in",
]

UNSEEN: Final = "<trueloop, unseen like importlib._bootstrap>"
"""The file name of our wrappers' code. `warnings` skips frames whose file name contains these two words when it counts
a stacklevel, so a warning points to the same line as without trueloop."""

OVERRIDES: Final = os.path.join("torch", "overrides.py")
"""The end of the file name of torch's frames that hand a call to a function mode."""

_places: dict[tuple[CodeType, int], Place] = {}


def frame_here(depth: int = 1) -> FrameType | None:
    """The nearest frame of the user's code, from the caller outward."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def caller_of(frame: FrameType) -> FrameType:
    """The frame itself, or its caller if it belongs to another patch of trueloop's on the same function."""
    while frame.f_code.co_filename == UNSEEN and frame.f_back is not None:
        frame = frame.f_back
    return frame


def outer_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers, outwards."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def here(depth: int = 1) -> Place | None:
    """The user's line that is being executed."""
    frame = frame_here(depth + 1)
    return None if frame is None else place_in(frame)


def is_direct(depth: int = 1) -> bool:
    """Is the caller the user's own code? Depth 1 is the caller of the function that asks."""
    return is_users(sys._getframe(depth + 1).f_code.co_filename)


def full_name(filename: str) -> str:
    """The absolute path of a file; the name of a notebook cell or of generated code as it is."""
    return filename if filename.startswith("<") else os.path.abspath(filename)


def place_in(frame: FrameType) -> Place:
    """The line of a frame. Cached, because the same few lines come again at every step.

    A signal can arrive at an instruction that Python added and that has no line: it counts for the first line.
    """
    key = (frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno)
    place = _places.get(key)
    if place is None:
        place = _places[key] = Place(full_name(key[0].co_filename), key[1], key[0].co_qualname)
    return place
