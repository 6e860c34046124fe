"""Which files the user wrote, and where in them a class, a layer or a parameter is defined. Works without torch."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Collection, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Final

from trueloop.event import Place
from trueloop.usercode.source import Source, called_name, calls_in, is_self_attribute, source_of

if TYPE_CHECKING:
    from torch import nn

__all__ = ["assigned_place", "attributes_read", "built_place", "claim", "class_place", "class_source", "layer_place"]
__all__ += ["MODEL_LIBRARIES", "detaching_lines", "draws_in_training", "is_users", "methods_of", "mode_dropped_place"]
__all__ += ["users_classes"]

MODEL_LIBRARIES: Final = ("transformers", "timm", "torchvision", "peft", "diffusers", "open_clip", "torchaudio")
"""They load weights in ways of their own."""
_INSTALLED: Final = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_OWN: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARY: Final = tuple(os.path.realpath(path) + os.sep for path in {*_INSTALLED, _OWN})
_LIBRARY_FOLDERS: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_COMMAND: Final = "trueloop"  # what pip installs: `sys.exit(main())` stands below every frame of a recipe's run

_CELLS: Final = ("<ipython", "<command-", "<stdin")
"""File names of notebook cells and of the prompt; other names in angle brackets belong to generated code."""

_DRAWS: Final = (
    *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like"),
    *("normal", "normal_", "uniform_", "bernoulli", "bernoulli_", "rsample"),
)  # Functions that draw random numbers

_claimed: list[str] = []
_users: dict[str, bool] = {}


def claim(folder: str) -> None:
    """Treat everything below this folder as the user's, even if it is installed as a library."""
    _claimed.append(os.path.realpath(folder) + os.sep)
    _users.clear()


def is_users(filename: str) -> bool:
    """Did the user write this file? Decided by its location."""
    known = _users.get(filename)
    if known is None:
        known = _users[filename] = _is_users(filename)
    return known


def _is_users(filename: str) -> bool:
    if filename.startswith("<"):
        return filename.startswith(_CELLS)
    path = os.path.realpath(filename)
    if any(path.startswith(folder) for folder in _claimed):
        return True
    if os.path.basename(path) == _COMMAND:
        return False
    return not path.startswith(_LIBRARY) and not any(folder in path for folder in _LIBRARY_FOLDERS)


def class_place(cls: type) -> Place | None:
    """The line that defines a class, if the file is the user's."""
    path = getattr(sys.modules.get(cls.__module__), "__file__", None) or _cell_of(cls)
    if not path or not is_users(path):
        return None
    node = source_of(path).class_named(cls.__name__)
    return None if node is None else Place(path, node.lineno, cls.__qualname__)


def _cell_of(cls: type) -> str:
    """The notebook cell that defines a class: its module has no file, its functions have one."""
    functions = [getattr(value, "__func__", value) for value in vars(cls).values()]  # of static methods too
    written = [function.__code__.co_filename for function in functions if isinstance(function, FunctionType)]
    return next((name for name in written if is_users(name)), "")


def users_classes(module: nn.Module) -> Iterator[tuple[type, Place]]:
    """Those of a module's class and its base classes that the user wrote, most derived first."""
    for cls in type(module).__mro__:
        if (place := class_place(cls)) is not None:
            yield cls, place


def class_source(cls: type) -> tuple[Source, ast.ClassDef] | None:
    """The file and the definition of a class that the user wrote; None for a library's class."""
    place = class_place(cls)
    node = None if place is None else source_of(place.path).class_named(cls.__name__)
    return None if place is None or node is None else (source_of(place.path), node)


def draws_in_training(cls: type) -> bool:
    """Does the user's class draw random numbers under `if self.training`? Then its mode matters, as with dropout."""
    found = class_source(cls)
    branches = [node for node in (ast.walk(found[1]) if found else ()) if isinstance(node, (ast.If, ast.IfExp))]
    training = [branch for branch in branches if "self.training" in ast.unparse(branch.test)]
    return any(called_name(call) in _DRAWS for branch in training for call in calls_in(branch))


def mode_dropped_place(module: nn.Module) -> Place | None:
    """The line of a user's `train` (or `eval`) method that does not pass its mode on: `super().train()`, or the method.
    None if it asks for train mode explicitly, or was replaced on the object: then that is meant."""
    if not {"train", "eval"}.isdisjoint(vars(module)):
        return None
    written = [(m, cls, at.path) for cls, at in users_classes(module) for m in methods_of(cls)]
    modes = [(method, cls, path) for method, cls, path in written if method.name in ("train", "eval")]
    if any(_asks_for_train_mode(method) for method, _, _ in modes):
        return None
    for method, cls, path in modes:
        calls = [call for call in calls_in(method) if called_name(call) in ("train", "eval")]
        bare = [call.lineno for call in calls if called_name(call) == "train" and not (call.args or call.keywords)]
        if bare or not calls:
            return Place(path, bare[0] if bare else method.lineno, f"{cls.__qualname__}.{method.name}")
    return None


def _asks_for_train_mode(method: ast.FunctionDef) -> bool:
    """`train(True)`, or `self.training = True`."""
    called = [value for c in calls_in(method) for value in (*c.args, *(word.value for word in c.keywords))]
    given = [node.value for node in ast.walk(method) if isinstance(node, ast.Assign)]
    return any(isinstance(value, ast.Constant) and value.value is True for value in (*called, *given))


def attributes_read(cls: type) -> frozenset[str]:
    """Attributes that a class of the user's reads outside its constructor."""
    methods = [method for owner in cls.__mro__ for method in methods_of(owner) if method.name != "__init__"]
    inside = [inner for method in methods for inner in ast.walk(method) if isinstance(inner, ast.Attribute)]
    return frozenset(inner.attr for inner in inside if is_self_attribute(inner, inner.attr))


def detaching_lines(root: nn.Module, name: str, calls: Collection[str]) -> Iterator[Place]:
    """Lines in the forwards around a layer that detach from the graph: `.data`, no_grad, and calls of these names."""
    parts = name.split(".")
    for depth in range(len(parts)):
        for cls, place in users_classes(root.get_submodule(".".join(parts[:depth]))):
            for method in methods_of(cls):
                if method.name == "forward":
                    lines = sorted({line for inner in ast.walk(method) if (line := _detaching_line(inner, calls))})
                    yield from (Place(place.path, line, f"{cls.__qualname__}.forward") for line in lines)


def methods_of(cls: type) -> list[ast.FunctionDef]:
    """The methods of a class that the user wrote; empty for a library's class."""
    found = class_source(cls)
    return [method for method in found[1].body if isinstance(method, ast.FunctionDef)] if found else []


def _detaching_line(node: ast.AST, calls: Collection[str]) -> int:
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
    """The line `self.attribute = ...` in a user's class, or the class itself; None for a library's class."""
    places = list(users_classes(owner))
    for cls, place in places:
        node = source_of(place.path).assignment_to_self(cls.__name__, attribute)
        if node is not None:
            return Place(place.path, node.lineno, cls.__qualname__)
    return places[0][1] if places else None


def layer_place(root: nn.Module, name: str) -> Place | None:
    """The user's line that builds a part of a model (`encoder.0.fc`), or the container around it."""
    parts = name.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        place = assigned_place(root.get_submodule(".".join(parts[:depth])), parts[depth])
        if place is not None:
            return place
    return None


def built_place(root: nn.Module, name: str, file: str) -> Place | None:
    """The user's line that builds a layer. Outside classes: its call in this file, if that builds only this model."""
    place = layer_place(root, name)
    if place is not None or not name:
        return place
    kind = type(root.get_submodule(name))
    alike = [path for path, module in root.named_modules() if type(module) is kind]
    source = source_of(file)
    built = [call for call in calls_in(source.tree) if called_name(call) == kind.__name__]
    calls = sorted((call.lineno, call.col_offset) for call in built)
    return Place(file, calls[alike.index(name)][0]) if len(calls) == len(alike) and name in alike else None
