"""Whose a file is, and where the user has written a class, a layer or a parameter. No torch: modules are only asked for their parts."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Final

from trueloop.event import Place
from trueloop.source import source_of

if TYPE_CHECKING:
    from torch import nn

__all__ = ["assigned_place", "birthplace", "claim", "class_place", "is_users", "users_classes"]

_LIBRARY: Final = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        os.path.dirname(os.path.abspath(__file__)),
    }
)
_LIBRARY_FOLDERS: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_CELLS: Final = ("<ipython", "<command-", "<stdin")
"""What notebooks and the prompt call a piece of the user's code; every other name in angle brackets is made by a library."""

_claimed: list[str] = []
_users: dict[str, bool] = {}


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


def class_place(cls: type) -> Place | None:
    """Where a class is written, if that is the user's file."""
    path = getattr(sys.modules.get(cls.__module__), "__file__", None) or _cell_of(cls)
    if not path or not is_users(path):
        return None
    node = source_of(path).class_named(cls.__name__)
    return None if node is None else Place(path, node.lineno, cls.__qualname__)


def _cell_of(cls: type) -> str:
    """The notebook cell that a class was written in: its module has no file, its functions have."""
    written = [value.__code__.co_filename for value in vars(cls).values() if isinstance(value, FunctionType)]
    return next((name for name in written if is_users(name)), "")


def users_classes(module: nn.Module) -> Iterator[tuple[type, Place]]:
    """The classes of a module that the user wrote, nearest first: its own, and its bases."""
    for cls in type(module).__mro__:
        if (place := class_place(cls)) is not None:
            yield cls, place


def assigned_place(owner: nn.Module, attribute: str) -> Place | None:
    """The line `self.attribute = ...` of a class of the user's; the class itself if it is not written so; None for a library's class."""
    places = list(users_classes(owner))
    for cls, place in places:
        node = source_of(place.path).assignment_to_self(cls.__name__, attribute)
        if node is not None:
            return Place(place.path, node.lineno, cls.__qualname__)
    return places[0][1] if places else None


def birthplace(root: nn.Module, name: str) -> Place | None:
    """The user's line that makes a part of a model (`encoder.0.fc`), climbing out of containers and of libraries' classes."""
    parts = name.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        place = assigned_place(root.get_submodule(".".join(parts[:depth])), parts[depth])
        if place is not None:
            return place
    return None
