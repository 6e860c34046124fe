"""What the user's code calls an object: evidence of what it is meant for, however it was built."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from trueloop.usercode.names import words_of
from trueloop.usercode.ownership import is_users

__all__ = ["names_of"]

MOST: Final = 64  # entries of a dict, and names, that are looked at


def names_of(things: tuple[Any, ...], depth: int = 1) -> tuple[str, ...]:
    """The words of all names of these objects in the running functions of the user: variables, keys of dicts,
    attributes of `self`. `val_loader` gives `val` and `loader`."""
    words: dict[str, None] = {}
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for name in _in_frame(frame, things):
                words.update(dict.fromkeys(words_of(name)))
        frame = frame.f_back
    return tuple(words)[:MOST]


def _in_frame(frame: FrameType, things: tuple[Any, ...]) -> Iterator[str]:
    held = dict(frame.f_locals)
    if isinstance(owner := getattr(held.get("self"), "__dict__", None), dict):
        held = {**owner, **held}
    for name, value in held.items():
        if any(value is thing for thing in things):
            yield name
        elif type(value) is dict and len(value) <= MOST:
            yield from (str(key) for key, one in value.items() if any(one is thing for thing in things))
