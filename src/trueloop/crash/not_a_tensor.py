"""A layer or function was given something that is no tensor: a tuple, a list, a dict, an array, None."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from torch import Tensor, nn

from trueloop.crash.explanation import Explanation, article, described, spot
from trueloop.crash.origin import Origin, came, origin
from trueloop.crash.scene import MISSING, Scene
from trueloop.taps.place import is_users
from trueloop.usercode.source import source_of

__all__ = ["explain"]

_ARGUMENT: Final = re.compile(
    r"argument '\w+' \(position \d+\) must be Tensor, not ([\w.]+)|received an invalid combination of arguments - got \((\w+)"
)
"""How a function of torch's says it."""
_ATTRIBUTE: Final = re.compile(r"'(tuple|list|dict|NoneType|ndarray)' object has no attribute '(\w+)'")
"""How Python says it."""


def explain(scene: Scene) -> Explanation | None:
    value, name, came_from = _culprit(scene)
    if value is MISSING or isinstance(value, (Tensor, int, float, str, bool)):
        return None
    source = _made_by(came_from)
    who = (
        f"`{scene.layer.name}` ({type(scene.layer.module).__name__})"
        if scene.layer is not None
        else f"The call at {spot(scene.place)}"
    )
    return Explanation(
        "not-a-tensor",
        f"{who} needs a tensor, but {name} is {described(value)}.",
        (*came_from.lines, *_remark(source)),
        _fix(name.strip("`"), value, source, scene, came_from),
        scene.place,
    )


def _culprit(scene: Scene) -> tuple[Any, str, Origin]:
    """What was no tensor, as far as the message and the frames say."""
    nothing = MISSING, "", Origin(())
    lacking = _ATTRIBUTE.search(scene.message) if isinstance(scene.error, AttributeError) else None
    if lacking is not None:
        return _lacking(scene, lacking) or nothing
    if not isinstance(scene.error, TypeError) or _ARGUMENT.search(scene.message) is None:
        return nothing
    if scene.layer is not None and not isinstance(scene.layer.given, Tensor):
        return scene.layer.given, *came(scene, scene.layer)
    argument = scene.argument()
    value = scene.crash.value(argument)
    return (
        (value, f"`{scene.crash.text(argument)}`", origin(scene, scene.crash, argument))
        if argument is not None
        else nothing
    )


def _lacking(scene: Scene, found: re.Match[str]) -> tuple[Any, str, Origin] | None:
    """`'tuple' object has no attribute 'view'`: the tuple, if it was treated like a tensor in the user's own line, or
    by a loss."""
    node = scene.crash.node
    candidates: list[ast.expr] = [*node.args] if isinstance(node, ast.Call) else []
    if not scene.beyond:
        base = (
            node.func.value
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            else getattr(node, "value", None)
        )
        candidates = [base] if isinstance(base, ast.expr) else []
    for candidate in candidates if hasattr(Tensor, found[2]) else ():
        value, came_from = scene.crash.value(candidate), origin(scene, scene.crash, candidate)
        known = _holds_tensors(value) or (value is None and isinstance(_made_by(came_from), nn.Module))
        if value is not MISSING and type(value).__name__ == found[1] and known:
            return value, f"`{scene.crash.text(candidate)}`", came_from
    return None


def _holds_tensors(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return any(isinstance(part, Tensor) or _holds_tensors(part) for part in parts)


def _made_by(came_from: Origin) -> Any:
    """The module whose output it is, if the statement that set it is a plain call of one."""
    statement, step = came_from.statement, came_from.step
    call = statement.value if isinstance(statement, ast.Assign) else None
    return step.value(call.func) if step is not None and isinstance(call, ast.Call) else MISSING


def _remark(source: Any) -> tuple[str, ...]:
    if isinstance(source, nn.LSTM):
        return ("nn.LSTM returns two things: (output, (h_n, c_n)).",)
    if isinstance(source, (nn.RNN, nn.GRU)):
        return (f"nn.{type(source).__name__} returns two things: (output, h_n).",)
    if isinstance(source, nn.MultiheadAttention):
        return ("nn.MultiheadAttention returns two things: (output, weights).",)
    return ()


def _fix(name: str, value: Any, source: Any, scene: Scene, came_from: Origin) -> str:
    kind = type(value).__name__
    if value is None and isinstance(source, nn.Module):
        return _returnless(source)
    if _remark(source) and isinstance(came_from.statement, ast.Assign) and came_from.step is not None:
        return f"Unpack it at {spot(came_from.place)}: {name}, _ = {came_from.step.text(came_from.statement.value)}."
    if kind == "ndarray":
        return f"Make it a tensor: torch.from_numpy({name}).float()."
    if isinstance(value, dict):
        return f"Pick the entry that is meant: {name}[{next(iter(value), '…')!r}]."
    if isinstance(value, (tuple, list)) and isinstance(came_from.statement, ast.For):
        return f"Unpack the batch where the loop takes it, at {spot(came_from.place)}: for x, y in …."
    if isinstance(value, (tuple, list)) and value and all(isinstance(part, Tensor) for part in value):
        same = len({part.shape for part in value}) == 1
        return f"Pick one, {name}[0]" + (
            f", or stack them, torch.stack({'list(' + name + ')' if kind == 'tuple' else name})." if same else "."
        )
    return (
        f"Pick the tensor out of it: {name}[0]."
        if isinstance(value, (tuple, list))
        else f"Give it a tensor instead of {article(kind)} {kind}."
    )


def _returnless(module: nn.Module) -> str:
    """A forward that forgets to return."""
    code = type(module).forward.__code__
    if not is_users(code.co_filename):
        return "Use what the module returns."
    source = source_of(code.co_filename)
    tree = source.class_named(type(module).__name__)
    forward = (
        next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if tree is not None
        else None
    )
    if forward is None or any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(forward)):
        return f"Make every path through {type(module).__name__}.forward return a tensor."
    return f"{type(module).__name__}.forward at {spot(source.place(forward))} returns nothing: end it with `return …`."
