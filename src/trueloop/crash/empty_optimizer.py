"""An optimizer was built without parameters."""

from __future__ import annotations

import ast

from torch import nn

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.origin import origin
from trueloop.crash.scene import MISSING, Scene

__all__ = ["explain"]


def explain(scene: Scene) -> Explanation | None:
    if "optimizer got an empty parameter list" not in scene.message:
        return None
    argument = scene.argument()
    owner = _owner(scene, argument)
    if owner is None:
        text = f"`{scene.crash.text(argument)}`" if argument is not None else "What it was given"
        fix = "Pass a list, or the iterator right away: an iterator such as model.parameters() can be read only once."
        details = origin(scene, scene.crash, argument).lines
        return Explanation(
            "empty-optimizer", f"{text} holds no parameters at {spot(scene.place)}.", details, fix, scene.place
        )
    name, module = owner
    hidden = _hidden(module)
    message = f"`{name}` ({type(module).__name__}) has no parameters, so there is nothing to optimize."
    if hidden:
        detail = f"`{name}.{hidden}` holds modules in a plain {type(vars(module)[hidden]).__name__}, where nn.Module does not see them."
        fix = f"Keep them in nn.ModuleList or nn.ModuleDict: self.{hidden} = nn.ModuleList(…)."
        return Explanation("empty-optimizer", message, (detail,), fix, scene.place)
    return Explanation(
        "empty-optimizer", message, (), "Build its layers in __init__, as attributes of the module.", scene.place
    )


def _owner(scene: Scene, argument: ast.AST | None) -> tuple[str, nn.Module] | None:
    """`model` in `model.parameters()`."""
    if (
        isinstance(argument, ast.Call)
        and isinstance(argument.func, ast.Attribute)
        and argument.func.attr in ("parameters", "named_parameters")
    ):
        value = scene.crash.value(argument.func.value)
        if isinstance(value, nn.Module) and value is not MISSING:
            return scene.crash.text(argument.func.value), value
    return None


def _hidden(module: nn.Module) -> str:
    """An attribute that keeps modules out of sight."""
    for name, value in vars(module).items():
        parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        if not name.startswith("_") and any(isinstance(part, nn.Module) for part in parts):
            return name
    return ""
