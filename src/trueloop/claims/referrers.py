"""What keeps an object alive: the nearest variable or attribute that refers to it, and the line that stores it."""

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

__all__ = ["Holder", "holder_of", "line_that_stores", "user_frames"]

DEPTH: Final = 6  # nested containers searched: a list in a dict in an attribute of an object in a list is four
STORING_METHODS = {"append", "appendleft", "add", "extend", "insert", "put", "update", "setdefault", "push"}


@dataclass(frozen=True, slots=True)
class Holder:
    """A name that refers to an object, directly or through containers."""

    words: str  # 'the list `losses` of the script'
    name: str  # `losses`; empty: no name was found
    bounded: bool  # a deque(maxlen=...) lies between: it fills up, and does not grow


def user_frames() -> list[FrameType]:
    """The user's frames on the stack, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    frames = []
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            frames.append(frame)
        frame = frame.f_back
    return frames


def holder_of(thing: Any, frames: Iterable[FrameType], passed_over: Iterable[Any]) -> Holder:
    """The nearest name, breadth first. `passed_over`: trueloop's own containers, which hold the object too."""
    return _Search(frames, passed_over).run(thing)


class _Search:
    def __init__(self, frames: Iterable[FrameType], passed_over: Iterable[Any]) -> None:
        self.frames = list(frames)
        local = ((name, value, frame) for frame in reversed(self.frames) for name, value in frame.f_locals.items())
        self.names = {id(value): _in_frame(name, value, frame) for name, value, frame in local}
        self.modules = {id(vars(each)): each for each in list(sys.modules.values()) if isinstance(each, ModuleType)}
        own = (self.frames, self.names, self.modules, vars(self), *passed_over)
        self.skipped = {id(each) for each in own}

    def run(self, thing: Any) -> Holder:
        level: list[tuple[Any, bool]] = [(thing, False)]
        seen = {id(thing)}
        for _ in range(DEPTH):
            for each, bounded in level:
                if (found := self.names.get(id(each)) or self._named(each)) is not None:
                    return Holder(found[0], found[1], bounded)
            level = self._above(level, seen)
        return Holder("an object without a name", "", False)

    def _named(self, thing: Any) -> tuple[str, str] | None:
        """By a module's global, or an attribute of an object."""
        for referrer in self._referrers(thing):
            if isinstance(referrer, dict):
                owner = self.modules.get(id(referrer)) or _owner_of(referrer)
                key = next((str(key) for key, value in referrer.items() if value is thing), None)
                if owner is not None and key is not None:
                    return _in_owner(key, thing, owner)
            elif not isinstance(referrer, (list, tuple, set, deque, CellType, FunctionType, FrameType)):
                attributes = getattr(referrer, "__dict__", {})
                key = next((str(key) for key, value in attributes.items() if value is thing), None)
                if key is not None:
                    return _in_owner(key, thing, referrer)
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
            library = isinstance(referrer, FrameType) and not is_users(referrer.f_code.co_filename)
            if not library and id(referrer) not in self.skipped and not _is_search_pair(referrer, thing):
                yield referrer


def _is_search_pair(referrer: Any, thing: Any) -> bool:
    """A (thing, bounded) pair of this search."""
    return isinstance(referrer, tuple) and len(referrer) == 2 and referrer[0] is thing and isinstance(referrer[1], bool)


def _owner_of(attributes: dict[Any, Any]) -> Any:
    """The object whose `__dict__` it is."""
    for referrer in gc.get_referrers(attributes):
        if isinstance(referrer, type):  # its `__dict__` is only a view
            if all(vars(referrer).get(name) is value for name, value in attributes.items()):
                return referrer
        elif isinstance(referrer, (dict, list, tuple, FrameType)):
            continue
        elif getattr(referrer, "__dict__", None) is attributes:
            return referrer
    return None


def _in_frame(name: str, value: Any, frame: FrameType) -> tuple[str, str]:
    function = frame.f_code.co_qualname
    where = "the script" if function == "<module>" else f"{function}()"
    return f"{_kind(value)} `{name}` of {where}", name


def _in_owner(name: str, value: Any, owner: Any) -> tuple[str, str]:
    if isinstance(owner, ModuleType):
        where = "the script" if owner.__name__ == "__main__" else f"the module {owner.__name__}"
    else:
        where = f"the class {owner.__qualname__}" if isinstance(owner, type) else f"a {type(owner).__name__}"
    return f"{_kind(value)} `{name}` of {where}", name


def _kind(value: Any) -> str:
    container = isinstance(value, (list, dict, set, tuple, deque))
    return f"the {type(value).__name__}" if container else "the variable"


# -- in the user's source --


def line_that_stores(name: str, path: str) -> Place | None:
    """The only line of a file that stores something in a container of this name; None: there is none, or several."""
    nodes = (node for node in ast.walk(source_of(path).tree) if isinstance(node, (ast.Call, ast.stmt)))
    lines = {node.lineno for node in nodes if _stores(node, name)}
    return Place(path, lines.pop()) if len(lines) == 1 else None


def _stores(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=target, attr=method)):
            return method in STORING_METHODS and _has_name(target, name)
        case ast.AugAssign(target=target) | ast.Assign(targets=[ast.Subscript(value=target)]):
            return _has_name(target, name)
        case ast.Assign(targets=[target], value=value):  # total = total + loss
            return _has_name(target, name) and any(_has_name(each, name) for each in ast.walk(value))
    return False


def _has_name(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
