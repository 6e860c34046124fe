"""A tensor was to be viewed in a shape that does not hold the same number of elements, or that its memory order
forbids."""

from __future__ import annotations

import ast
import re
from math import prod
from types import ModuleType
from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described, factors, written
from trueloop.crash.origin import origin
from trueloop.crash.scene import Scene
from trueloop.usercode.source import called_name

__all__ = ["explain"]

_SIZE: Final = re.compile(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)")
"""How torch says it, with the numbers."""
_ORDER: Final = "view size is not compatible with input tensor's size and stride"
"""How torch says that the memory order is in the way."""


def explain(scene: Scene) -> Explanation | None:
    found = _SIZE.search(scene.message)
    call = scene.crash.node
    if (found is None and _ORDER not in scene.message) or scene.beyond or not isinstance(call, ast.Call):
        return None
    base = (
        call.func.value if isinstance(call.func, ast.Attribute) and called_name(call) in ("view", "reshape") else None
    )
    if isinstance(scene.crash.value(base), ModuleType):  # torch.reshape(x, …)
        base = scene.argument()
    tensor = scene.crash.value(base)
    name = scene.crash.text(base) if base is not None else ""
    if found is None:
        return _order(scene, base, name, tensor)
    wanted = [int(part) for part in found[1].split(",") if part.strip()]
    known = [dimension for dimension in wanted if dimension != -1]
    message = f"{written(wanted)} holds {'a multiple of ' if -1 in wanted else ''}{prod(known)} elements, but "
    shape = tuple(tensor.shape) if isinstance(tensor, Tensor) else None
    if shape is None:
        message += f"the tensor has {found[2]}."
    else:
        message += f"`{name}` has {found[2]}: {described(tensor)}."
    details = (*origin(scene, scene.crash, base).lines, *_sample(shape, wanted))
    return Explanation("view-shape", message, details, _fix(name, shape, wanted), scene.place)


def _sample(shape: tuple[int, ...] | None, wanted: list[int]) -> tuple[str, ...]:
    if shape is None or len(shape) < 2 or -1 in wanted[1:] or prod(wanted[1:]) == prod(shape[1:]):
        return ()
    return (f"One sample of it has {factors(shape[1:])} elements, the view makes room for {prod(wanted[1:])}.",)


def _fix(name: str, shape: tuple[int, ...] | None, wanted: list[int]) -> str:
    if shape is None or len(shape) < 2 or not wanted:
        return "Let one dimension be -1, or write sizes whose product is the number of elements."
    rest = wanted[1:]
    if wanted[0] not in (-1, shape[0]) and rest and -1 not in rest and prod(rest) == prod(shape[1:]):
        return (
            f"This batch has {shape[0]} samples, not {wanted[0]}: write -1 or {name}.size(0) for the batch dimension."
        )
    if len(wanted) == 2:
        return f"Write {name}.flatten(1), which gives {written((shape[0], prod(shape[1:])))}, and build the next layer for {prod(shape[1:])}."
    return f"Write sizes after the batch dimension whose product is {prod(shape[1:])}."


def _order(scene: Scene, base: ast.AST | None, name: str, tensor: object) -> Explanation:
    shown = f"`{name}`" if name else "The tensor"
    what = f" ({described(tensor)}, strides {written(tensor.stride())})" if isinstance(tensor, Tensor) else ""
    return Explanation(
        "view-shape",
        f"{shown}{what} does not lie in memory in the order of its dimensions, as after a transpose or permute, so no view can merge them.",
        origin(scene, scene.crash, base).lines,
        f"Write {name or 'x'}.reshape(…) instead of .view(…): it copies where a view is impossible.",
        scene.place,
    )
