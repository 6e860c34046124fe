"""A module was used before nn.Module.__init__ had run: its __init__ does not call super().__init__(), or calls it too
late."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

from torch import nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.scene import Scene
from trueloop.taps.place import is_users
from trueloop.torch_private.modules import MEMBERS, is_initialized
from trueloop.usercode.source import Edit, Source, called_name, diff, source_of

__all__ = ["explain"]

_EARLY: Final = re.compile(r"cannot assign \w+ before Module\.__init__\(\) call")
"""When a layer is assigned."""
_LACKING: Final = re.compile(rf"object has no attribute '({'|'.join(MEMBERS)}|training|_\w*hooks\w*)'")
"""When the module is used."""


def explain(scene: Scene) -> Explanation | None:
    if not isinstance(scene.error, AttributeError) or not (
        _EARLY.search(scene.message) or _LACKING.search(scene.message)
    ):
        return None
    modules = (step.locals.get("self") for step in reversed(scene.steps))
    module = next((found for found in modules if isinstance(found, nn.Module) and not is_initialized(found)), None)
    owner = next(_inits(module), None) if module is not None else None
    if module is None or owner is None:
        return None
    cls, source, function = owner
    call = _super_call(function)
    first = _first_statement(function)
    if call is None:
        how, place = "never calls super().__init__()", source.place(function)
        fix = f"Make super().__init__() the first line of {cls.__name__}.__init__, before {spot(source.place(first))}."
        patch = diff(
            source.path, [Edit(first.lineno, first.lineno - 1, (f"{source.indent(first.lineno)}super().__init__()",))]
        )
    else:
        how, place = (
            f"calls super().__init__() only at {spot(source.place(call))}, after modules are assigned",
            source.place(call),
        )
        fix = f"Move super().__init__() to the top of {cls.__name__}.__init__."
        patch = _moved(source, call, first)
    return Explanation(
        "missing-init",
        f"{cls.__name__}.__init__ (at {spot(source.place(function))}) {how}, so the module has nowhere to keep layers and parameters.",
        (
            f"The crash came at {spot(scene.place)}: {scene.crash.text(scene.crash.statement) if scene.crash.statement else ''}",
        ),
        fix,
        place,
        patch,
    )


def _inits(module: nn.Module) -> Iterator[tuple[type, Source, ast.FunctionDef]]:
    """The user's __init__ methods of a module's class and its bases, the most derived first."""
    for cls in type(module).__mro__:
        code: Any = getattr(vars(cls).get("__init__"), "__code__", None)
        tree = (
            source_of(code.co_filename).class_named(cls.__name__)
            if code is not None and is_users(code.co_filename)
            else None
        )
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                yield cls, source_of(code.co_filename), node


def _first_statement(function: ast.FunctionDef) -> ast.stmt:
    documented = ast.get_docstring(function) is not None and len(function.body) > 1
    return function.body[1 if documented else 0]


def _super_call(function: ast.FunctionDef) -> ast.stmt | None:
    """`super().__init__()`, `super(Net, self).__init__()` or `nn.Module.__init__(self)`."""
    for statement in function.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and called_name(call) == "__init__":
            return statement
    return None


def _moved(source: Source, call: ast.stmt, first: ast.stmt) -> str:
    if call.lineno != call.end_lineno or call is first:
        return ""
    line = source.lines[call.lineno - 1].rstrip("\n")
    return diff(source.path, [Edit(first.lineno, first.lineno - 1, (line,)), Edit(call.lineno, call.lineno, ())])
