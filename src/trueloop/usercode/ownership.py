"""Whose a file is, and where the user has written a class, a layer or a parameter. No torch: modules are only asked for
their parts."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Collection, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Final

from trueloop.event import Place
from trueloop.usercode.source import called_name, calls_in, is_self_attribute, source_of

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "assigned_place",
    "attributes_read",
    "birthplace",
    "built_place",
    "claim",
    "class_place",
    "cuts_in_forwards",
    "draws_in_training",
    "is_users",
    "users_classes",
]

_LIBRARY: Final = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }
)
_LIBRARY_FOLDERS: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_CELLS: Final = ("<ipython", "<command-", "<stdin")
"""What notebooks and the prompt call a piece of the user's code; every other name in angle brackets is made by a
library."""

_DRAWS: Final = frozenset(
    (
        "rand",
        "rand_like",
        "randn",
        "randn_like",
        "randint",
        "randint_like",
        "normal",
        "normal_",
        "uniform_",
        "bernoulli",
        "bernoulli_",
        "rsample",
    )
)
"""Functions that draw."""

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


def draws_in_training(cls: type) -> bool:
    """Is a random number drawn in a class of the user's under an `if self.training`? Then its mode matters, as a
    dropout's does."""
    place = class_place(cls)
    node = source_of(place.path).class_named(cls.__name__) if place is not None else None
    if node is None:
        return False
    branches = [
        inner
        for inner in ast.walk(node)
        if isinstance(inner, (ast.If, ast.IfExp)) and "self.training" in ast.unparse(inner.test)
    ]
    return any(
        isinstance(inner, ast.Call) and ast.unparse(inner.func).split(".")[-1] in _DRAWS
        for branch in branches
        for inner in ast.walk(branch)
    )


def attributes_read(cls: type) -> frozenset[str]:
    """Attributes that a class of the user's reads outside its constructor."""
    methods = [method for owner in cls.__mro__ for method in _methods(owner) if method.name != "__init__"]
    inside = [inner for method in methods for inner in ast.walk(method) if isinstance(inner, ast.Attribute)]
    return frozenset(inner.attr for inner in inside if is_self_attribute(inner, inner.attr))


def cuts_in_forwards(root: nn.Module, name: str, calls: Collection[str]) -> Iterator[Place]:
    """Lines of the forwards around a layer that leave the graph: `.data`, no_grad, and calls of these names."""
    parts = name.split(".")
    for depth in range(len(parts)):
        for cls, place in users_classes(root.get_submodule(".".join(parts[:depth]))):
            for method in _methods(cls):
                if method.name == "forward":
                    lines = sorted({line for inner in ast.walk(method) if (line := _leaves_the_graph(inner, calls))})
                    yield from (Place(place.path, line, f"{cls.__qualname__}.forward") for line in lines)


def _methods(cls: type) -> list[ast.FunctionDef]:
    """As they are written in the user's file; none of a library's class."""
    place = class_place(cls)
    node = source_of(place.path).class_named(cls.__name__) if place else None
    return [method for method in node.body if isinstance(method, ast.FunctionDef)] if node else []


def _leaves_the_graph(node: ast.AST, calls: Collection[str]) -> int:
    """The line, or 0."""
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
        return node.lineno
    if isinstance(node, ast.Call) and called_name(node) in calls:
        return node.lineno
    if isinstance(node, ast.With) and any(
        called_name(c) in ("no_grad", "inference_mode") for item in node.items for c in calls_in(item)
    ):
        return node.lineno
    return 0


def assigned_place(owner: nn.Module, attribute: str) -> Place | None:
    """The line `self.attribute = ...` of a class of the user's; the class itself if it is not written so; None for a
    library's class."""
    places = list(users_classes(owner))
    for cls, place in places:
        node = source_of(place.path).assignment_to_self(cls.__name__, attribute)
        if node is not None:
            return Place(place.path, node.lineno, cls.__qualname__)
    return places[0][1] if places else None


def birthplace(root: nn.Module, name: str) -> Place | None:
    """The user's line that makes a part of a model (`encoder.0.fc`), climbing out of containers and of libraries'
    classes."""
    parts = name.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        place = assigned_place(root.get_submodule(".".join(parts[:depth])), parts[depth])
        if place is not None:
            return place
    return None


def built_place(root: nn.Module, name: str, file: str) -> Place | None:
    """The user's line that makes a layer; where no class of the user's does, the call in this file, if it makes just
    the model's layers."""
    place = birthplace(root, name)
    if place is not None or not name:
        return place
    kind = type(root.get_submodule(name))
    alike = [path for path, module in root.named_modules() if type(module) is kind]
    source = source_of(file)
    calls = sorted(
        (call.lineno, call.col_offset) for call in calls_in(source.tree) if called_name(call) == kind.__name__
    )
    return Place(file, calls[alike.index(name)][0]) if len(calls) == len(alike) and name in alike else None
