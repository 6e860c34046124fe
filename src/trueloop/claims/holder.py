"""Who keeps an object alive: from the object up to a name that a person knows, and the line that puts things there."""

from __future__ import annotations

import ast
import gc
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any, Final

from trueloop.event import Place
from trueloop.taps.place import is_users
from trueloop.usercode.source import source_of

__all__ = ["Holder", "holder_of", "put_there", "users_frames"]

DEEP: Final = 6
"""Containers in containers: a list in a dict in an attribute of an object in a list is four."""
PUTS: Final = frozenset(("append", "appendleft", "add", "extend", "insert", "put", "update", "setdefault", "push"))
"""Methods by which containers grow."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A name, and what lies between it and the object."""

    words: str
    """For a person: 'the list `losses` of the script'."""
    name: str
    """`losses`; empty: no name was found."""
    bounded: bool
    """Is there a container between that lets the oldest go when it is full? Then it fills up, and does not grow."""


def users_frames() -> list[FrameType]:
    """Where the program stands, innermost first: only those of the user's."""
    frame: FrameType | None = sys._getframe(1)
    frames = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    return frames


def holder_of(thing: Any, frames: Iterable[FrameType], passed_over: Iterable[Any]) -> Holder:
    """Breadth first: the nearest name. `passed_over`: our own containers, which hold it too."""
    return _Search(frames, passed_over).run(thing)


class _Search:
    def __init__(self, frames: Iterable[FrameType], passed_over: Iterable[Any]) -> None:
        self.frames = list(frames)
        self.names = {
            id(value): _of_frame(name, value, frame)
            for frame in reversed(self.frames)
            for name, value in frame.f_locals.items()
        }
        self.modules = {
            id(vars(module)): module for module in list(sys.modules.values()) if isinstance(module, ModuleType)
        }
        self.skipped = {id(each) for each in passed_over} | {
            id(self.frames),
            id(self.names),
            id(self.modules),
            id(vars(self)),
        }

    def run(self, thing: Any) -> Holder:
        level: list[tuple[Any, bool]] = [(thing, False)]
        seen = {id(thing)}
        for _ in range(DEEP):
            for each, bounded in level:
                if (found := self.names.get(id(each))) is not None:
                    return Holder(found[0], found[1], bounded)
                if (named := self._named(each)) is not None:
                    return Holder(named[0], named[1], bounded)
            level = self._above(level, seen)
        return Holder("something that could not be named", "", False)

    def _named(self, thing: Any) -> tuple[str, str] | None:
        """By a module's global, or an attribute of an object."""
        for referrer in self._referrers(thing):
            if isinstance(referrer, dict):
                owner = self.modules.get(id(referrer)) or _owner_of(referrer)
                key = next((str(key) for key, value in referrer.items() if value is thing), None)
                if owner is not None and key is not None:
                    return _of_owner(key, thing, owner)
            elif not isinstance(referrer, (list, tuple, set, deque, CellType, FunctionType, FrameType)):
                key = next((str(key) for key, value in _attributes(referrer) if value is thing), None)
                if key is not None:
                    return _of_owner(key, thing, referrer)
        return None

    def _above(self, level: list[tuple[Any, bool]], seen: set[int]) -> list[tuple[Any, bool]]:
        above = []
        for each, bounded in level:
            for referrer in self._referrers(each):
                if id(referrer) not in seen and not isinstance(referrer, (ModuleType, type)):
                    seen.add(id(referrer))
                    above.append((referrer, bounded or (isinstance(referrer, deque) and referrer.maxlen is not None)))
        self.skipped |= {id(above), *(id(pair) for pair in above)}
        return above

    def _referrers(self, thing: Any) -> Iterator[Any]:
        found = gc.get_referrers(thing)
        self.skipped.add(id(found))
        for referrer in found:
            ours = isinstance(referrer, FrameType) and not is_users(referrer.f_code.co_filename)
            if not ours and id(referrer) not in self.skipped and not _is_ours(referrer, thing):
                yield referrer


def _is_ours(referrer: Any, thing: Any) -> bool:
    """A pair of this very search."""
    return isinstance(referrer, tuple) and len(referrer) == 2 and referrer[0] is thing and isinstance(referrer[1], bool)


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    try:
        yield from vars(thing).items()
    except TypeError:
        return  # it has no __dict__


def _owner_of(attributes: dict[Any, Any]) -> Any:
    """The object whose `__dict__` it is."""
    for referrer in gc.get_referrers(attributes):
        if isinstance(referrer, type):  # whose `__dict__` is only a view of it
            if all(vars(referrer).get(name) is value for name, value in attributes.items()):
                return referrer
        elif (
            not isinstance(referrer, (dict, list, tuple, FrameType))
            and getattr(referrer, "__dict__", None) is attributes
        ):
            return referrer
    return None


def _of_frame(name: str, value: Any, frame: FrameType) -> tuple[str, str]:
    function = frame.f_code.co_qualname
    where = "the script" if function == "<module>" else f"{function}()"
    return f"{_kind(value)} `{name}` of {where}", name


def _of_owner(name: str, value: Any, owner: Any) -> tuple[str, str]:
    if isinstance(owner, ModuleType):
        where = "the script" if owner.__name__ == "__main__" else f"the module {owner.__name__}"
        return f"{_kind(value)} `{name}` of {where}", name
    return (
        f"{_kind(value)} `{name}` of {'the class ' + owner.__qualname__ if isinstance(owner, type) else 'a ' + type(owner).__name__}",
        name,
    )


def _kind(value: Any) -> str:
    kind = type(value).__name__
    return f"the {kind}" if isinstance(value, (list, dict, set, tuple, deque)) else "the variable"


# -- in the user's words --


def put_there(name: str, path: str) -> Place | None:
    """The one line of a file that puts something into what is so named; None: there is none, or there are several."""
    lines = {
        node.lineno
        for node in ast.walk(source_of(path).tree)
        if isinstance(node, (ast.Call, ast.stmt)) and _puts(node, name)
    }
    return Place(path, lines.pop()) if len(lines) == 1 else None


def _puts(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=target, attr=method)):
            return method in PUTS and _is_called(target, name)
        case ast.AugAssign(target=target):
            return _is_called(target, name)
        case ast.Assign(targets=[ast.Subscript(value=target)]):
            return _is_called(target, name)
        case ast.Assign(targets=[target], value=value):  # total = total + loss
            return _is_called(target, name) and any(_is_called(each, name) for each in ast.walk(value))
    return False


def _is_called(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
