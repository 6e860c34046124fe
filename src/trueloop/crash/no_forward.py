"""The script calls a module that has no forward method."""

import ast
import re
from difflib import get_close_matches
from typing import Final

from trueloop.crash.explanation import Explanation, spot
from trueloop.crash.scene import Scene
from trueloop.usercode.ownership import class_source

__all__ = ["explain"]

_SIGN: Final = re.compile(r'Module \[(\w+)\] is missing the required "forward" function')


def explain(scene: Scene) -> Explanation | None:
    found = _SIGN.search(scene.message)
    owners = (step.owner for step in reversed(scene.beyond) if step.owner is not None)
    module = scene.layer.module if scene.layer is not None else next(owners, None)
    if found is None or module is None:
        return None
    written = class_source(type(module))
    source = scene.crash.source if written is None else written[0]
    tree = source.class_named(found[1])
    functions = [node for node in ast.walk(tree or ast.Module([], [])) if isinstance(node, ast.FunctionDef)]
    nested = next((f for f in functions if f.name == "forward" and tree is not None and f not in tree.body), None)
    near = get_close_matches("forward", [function.name for function in functions], n=1, cutoff=0.7)
    misspelled = next((function for function in functions if near and function.name == near[0]), None)
    message = f"{found[1]} has no method `forward`, which calling it would run."
    if nested is not None:
        at = source.place(nested)
        detail = f"The `forward` at {spot(at)} is indented into another method, so it does not belong to the class."
        return scene.explanation(message, (detail,), f"Remove one level of indentation at {spot(at)}.", at)
    if misspelled is not None:
        at = source.place(misspelled)
        detail = f"It has `{misspelled.name}` at {spot(at)}."
        return scene.explanation(message, (detail,), f"Rename `{misspelled.name}` to `forward`.", at)
    at = source.place(tree) if tree is not None else scene.place
    return scene.explanation(message, (), f"Add `def forward(self, x):` to the class at {spot(at)}.", at)
