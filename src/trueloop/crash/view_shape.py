"""`view` or `reshape` to a wrong number of elements, or `view` of a tensor that is not contiguous."""

import ast
import re
from math import prod
from types import ModuleType
from typing import Final

from torch import Tensor

from trueloop.crash.explanation import Explanation, described, factors, written
from trueloop.crash.origin import origins
from trueloop.crash.scene import Scene
from trueloop.usercode.source import called_name

__all__ = ["explain"]

_SIZE: Final = re.compile(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)")
_ORDER: Final = "view size is not compatible with input tensor's size and stride"


def explain(scene: Scene) -> Explanation | None:
    found, call = _SIZE.search(scene.message), scene.crash.node
    if (found is None and _ORDER not in scene.message) or scene.beyond or not isinstance(call, ast.Call):
        return None
    base = scene.receiver if called_name(call) in ("view", "reshape") else None
    if isinstance(scene.crash.value(base), ModuleType):  # torch.reshape(x, …)
        base = scene.argument()
    tensor = scene.crash.value(base)
    name = scene.crash.text(base) if base is not None else ""
    if found is None:
        return _order(scene, base, name, tensor)
    wanted = [int(part) for part in found[1].split(",") if part.strip()]
    holds = f"{'a multiple of ' if -1 in wanted else ''}{prod(size for size in wanted if size != -1)} elements"
    shape = tuple(tensor.shape) if isinstance(tensor, Tensor) else None
    has = f"the tensor has {found[2]}" if shape is None else f"`{name}` has {found[2]}: {described(tensor)}"
    details = origins(scene, base)
    if shape is not None and len(shape) > 1 and -1 not in wanted[1:] and prod(wanted[1:]) != prod(shape[1:]):
        details += (f"One sample has {factors(shape[1:])} elements, but the view has {prod(wanted[1:])} per sample.",)
    return scene.explanation(f"{written(wanted)} holds {holds}, but {has}.", details, _fix(name, shape, wanted))


def _fix(name: str, shape: tuple[int, ...] | None, wanted: list[int]) -> str:
    if shape is None or len(shape) < 2 or not wanted:
        return "Use -1 for one dimension, or sizes whose product is the number of elements."
    rest, sample = wanted[1:], prod(shape[1:])
    if wanted[0] not in (-1, shape[0]) and rest and -1 not in rest and prod(rest) == sample:
        return f"This batch has {shape[0]} samples, not {wanted[0]}: use -1 or {name}.size(0) for the batch dimension."
    if len(wanted) == 2:
        flat = written((shape[0], sample))
        return f"Write {name}.flatten(1), which gives {flat}, and build the next layer for {sample}."
    return f"Use sizes after the batch dimension whose product is {sample}."


def _order(scene: Scene, base: ast.AST | None, name: str, tensor: object) -> Explanation:
    what = f" ({described(tensor)}, strides {written(tensor.stride())})" if isinstance(tensor, Tensor) else ""
    tensor_is = f"{f'`{name}`' if name else 'The tensor'}{what} is not contiguous, as after a transpose or permute"
    fix = f"Write {name or 'x'}.reshape(…) instead of .view(…): it copies where a view is impossible."
    return scene.explanation(f"{tensor_is}, so no view can merge its dimensions.", origins(scene, base), fix)
