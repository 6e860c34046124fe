"""A module is used before nn.Module.__init__ has run: its __init__ calls super().__init__() too late, or not at all."""

import ast
import re
from typing import Final

from torch import nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.scene import Scene
from trueloop.torch_private.modules import MEMBERS, is_initialized
from trueloop.usercode.ownership import class_source, methods_of
from trueloop.usercode.source import Edit, Source, called_name, diff

__all__ = ["explain"]

_SIGNS: Final = re.compile(
    r"cannot assign \w+ before Module\.__init__\(\) call"  # when a layer is assigned
    rf"|object has no attribute '({'|'.join(MEMBERS)}|training|_\w*hooks\w*)'"  # when the module is used
)


def explain(scene: Scene) -> Explanation | None:
    if not isinstance(scene.error, AttributeError) or _SIGNS.search(scene.message) is None:
        return None
    owners = (step.locals.get("self") for step in reversed(scene.steps))
    module = next((found for found in owners if isinstance(found, nn.Module) and not is_initialized(found)), None)
    classes = type(module).__mro__ if module is not None else ()
    inits = ((cls, method) for cls in classes for method in methods_of(cls) if method.name == "__init__")
    cls, function = next(inits, (None, None))
    found = None if cls is None else class_source(cls)
    if found is None or function is None or cls is None:
        return None
    source = found[0]
    call, first = _super_call(function), _first_statement(function)
    if call is None:
        how, place = "never calls super().__init__()", source.place(function)
        fix = f"Make super().__init__() the first line of {cls.__name__}.__init__, before {spot(source.place(first))}."
        line = f"{source.indent(first.lineno)}super().__init__()"
        patch = diff(source.path, [Edit(first.lineno, first.lineno - 1, (line,))])
    else:
        place = source.place(call)
        how = f"calls super().__init__() only at {spot(place)}, after it has assigned modules"
        fix = f"Move super().__init__() to the top of {cls.__name__}.__init__."
        patch = _move_up(source, call, first)
    init, statement = f"{cls.__name__}.__init__ (at {spot(source.place(function))})", scene.crash.statement
    message = f"{init} {how}, so the module cannot hold layers and parameters."
    detail = f"It crashed at {spot(scene.place)}: {scene.crash.text(statement) if statement else ''}"
    return scene.explanation(message, (detail,), fix, place, patch)


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


def _move_up(source: Source, call: ast.stmt, first: ast.stmt) -> str:
    if call.lineno != call.end_lineno or call is first:
        return ""
    line = source.lines[call.lineno - 1].rstrip("\n")
    return diff(source.path, [Edit(first.lineno, first.lineno - 1, (line,)), Edit(call.lineno, call.lineno, ())])
