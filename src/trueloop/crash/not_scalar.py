"""Backward was called on a tensor with more than one element."""

from __future__ import annotations

import ast

from torch import Tensor

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene
from trueloop.usercode.source import calls_in

__all__ = ["explain"]


def explain(scene: Scene) -> Explanation | None:
    if "grad can be implicitly created only for scalar outputs" not in scene.message:
        return None
    call = scene.crash.node
    receiver = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    root = scene.library_local(("backward",), "self")
    if not isinstance(root, Tensor) or receiver is None:
        return None
    name, came_from = scene.crash.text(receiver), origin(scene, scene.crash, receiver)
    unreduced = came_from.statement is not None and any(
        _is_unreduced(scene, call) for call in calls_in(came_from.statement)
    )
    fix = "Leave out reduction='none', or reduce" if unreduced else "Reduce"
    return Explanation(
        "not-scalar",
        f"`{name}` is {described(root)}, {root.numel()} numbers, and backward starts from one.",
        came_from.lines,
        f"{fix} it first: {name}.mean().backward().",
        scene.place,
    )


def _is_unreduced(scene: Scene, call: ast.Call) -> bool:
    if getattr(scene.crash.value(call.func), "reduction", "") == "none":
        return True
    return any(
        k.arg == "reduction" and isinstance(k.value, ast.Constant) and k.value.value == "none" for k in call.keywords
    )
