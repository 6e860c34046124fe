"""Backward was called on a tensor with more than one element."""

import ast

from trueloop.crash.explanation import Explanation, described
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene
from trueloop.usercode.source import calls_in

__all__ = ["explain"]


def explain(scene: Scene) -> Explanation | None:
    root, receiver = scene.backward_root, scene.receiver
    if (
        "grad can be implicitly created only for scalar outputs" not in scene.message
        or root is None
        or receiver is None
    ):
        return None
    name, came_from = scene.crash.text(receiver), origin(scene, scene.crash, receiver)
    calls = calls_in(came_from.statement) if came_from.statement is not None else ()
    fix = "Remove reduction='none', or reduce" if any(_is_unreduced(scene, call) for call in calls) else "Reduce"
    return scene.explanation(
        f"`backward()` needs a scalar, but `{name}` is {described(root)} with {root.numel()} elements.",
        came_from.lines,
        f"{fix} it first: {name}.mean().backward().",
    )


def _is_unreduced(scene: Scene, call: ast.Call) -> bool:
    if getattr(scene.crash.value(call.func), "reduction", "") == "none":
        return True
    given = {keyword.arg: scene.crash.value(keyword.value) for keyword in call.keywords}
    return given.get("reduction") == "none"
