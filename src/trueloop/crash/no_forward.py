"""A module was called that has no forward method."""

from __future__ import annotations

import ast
import re
from difflib import get_close_matches
from typing import Final

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.scene import Scene
from trueloop.taps.place import is_users
from trueloop.usercode.source import source_of

__all__ = ["explain"]

_SIGN: Final = re.compile(r'Module \[(\w+)\] is missing the required "forward" function')
"""How torch says it."""


def explain(scene: Scene) -> Explanation | None:
    found, layer = _SIGN.search(scene.message), scene.layer
    module = (
        layer.module
        if layer is not None
        else next((step.owner for step in reversed(scene.beyond) if step.owner is not None), None)
    )
    if found is None or module is None:
        return None
    code = getattr(type(module).__init__, "__code__", None)
    source = source_of(code.co_filename) if code is not None and is_users(code.co_filename) else scene.crash.source
    tree = source.class_named(found[1])
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] if tree is not None else []
    near = get_close_matches("forward", [method.name for method in methods], n=1, cutoff=0.7)
    method = next((method for method in methods if near and method.name == near[0]), None)
    inner = next(
        (
            m
            for outer in methods
            for m in ast.walk(outer)
            if isinstance(m, ast.FunctionDef) and m is not outer and m.name == "forward"
        ),
        None,
    )
    message = f"{found[1]} has no method `forward`, which is what calling it runs."
    if inner is not None:
        detail = f"A `forward` at {spot(source.place(inner))} is indented into another method, so it is not one of the class."
        return Explanation(
            "no-forward",
            message,
            (detail,),
            f"Take one level of indentation off it, at {spot(source.place(inner))}.",
            source.place(inner),
        )
    if method is not None:
        detail = f"It has `{method.name}` at {spot(source.place(method))}."
        return Explanation(
            "no-forward", message, (detail,), f"Rename `{method.name}` to `forward`.", source.place(method)
        )
    place = source.place(tree) if tree is not None else scene.place
    return Explanation("no-forward", message, (), f"Add `def forward(self, x):` to the class at {spot(place)}.", place)
