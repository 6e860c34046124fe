"""An optimizer was built without parameters."""

import ast

from torch import nn

from trueloop.crash.explanation import Explanation
from trueloop.crash.origin import origins
from trueloop.crash.scene import Scene

__all__ = ["explain"]


def explain(scene: Scene) -> Explanation | None:
    if "optimizer got an empty parameter list" not in scene.message:
        return None
    argument = scene.argument()
    function = argument.func if isinstance(argument, ast.Call) else None
    module = scene.crash.value(function.value) if isinstance(function, ast.Attribute) else None
    if function is None or not isinstance(module, nn.Module) or not ast.unparse(function).endswith("parameters"):
        return scene.explanation(
            f"{scene.named(argument, 'The argument of the optimizer')} contains no parameters.",
            origins(scene, argument),
            "Pass a list, or call model.parameters() here: an iterator can be read only once.",
        )
    name, hidden = scene.crash.text(function).rpartition(".")[0], _hidden(module)
    message = f"`{name}` ({type(module).__name__}) has no parameters, so there is nothing to optimize."
    if not hidden:
        return scene.explanation(message, (), "Build its layers in __init__, as attributes of the module.")
    kind = type(vars(module)[hidden]).__name__
    detail = f"`{name}.{hidden}` holds modules in a plain {kind}, which nn.Module does not search for parameters."
    return scene.explanation(
        message, (detail,), f"Use nn.ModuleList or nn.ModuleDict: self.{hidden} = nn.ModuleList(…)."
    )


def _hidden(module: nn.Module) -> str:
    """An attribute that holds modules in a plain container."""
    for name, value in vars(module).items():
        parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
        if not name.startswith("_") and any(isinstance(part, nn.Module) for part in parts):
            return name
    return ""
