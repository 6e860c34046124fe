"""What the user's code calls an object: evidence of what it is meant for, however it was built."""

import ast
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from torch import Tensor

from trueloop.taps.place import frame_here
from trueloop.torch_private.tensors import view_base
from trueloop.usercode.names import words_of
from trueloop.usercode.ownership import is_users
from trueloop.usercode.source import source_of

__all__ = ["names_of", "names_of_argument"]

MOST: Final = 64  # entries of a dict, and names, that are looked at
FEW: Final = 8  # entries of a tuple or list


def names_of(things: tuple[Any, ...], depth: int = 1) -> tuple[str, ...]:
    """The words of all names of these objects in the running functions of the user: variables, keys of dicts,
    attributes of `self`. `val_loader` gives `val` and `loader`."""
    words: dict[str, None] = {}
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for name in _in_frame(frame, things):
                words.update(dict.fromkeys(words_of(name)))
        frame = frame.f_back
    return tuple(words)[:MOST]


def names_of_argument(tensor: Tensor) -> tuple[str, ...]:
    """The words of the names of a tensor that is passed to a call, of the one that it is a part of, and of the tensors
    in that statement: `model(x_val[rows])` copies the rows, so only the statement says where they come from."""
    frame = frame_here(2)
    things = [tensor] if (base := view_base(tensor)) is None else [tensor, base]
    statement = None if frame is None else source_of(frame.f_code.co_filename).statement(frame.f_lineno)
    if frame is not None and isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)):
        read = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        things += [value for name, value in frame.f_locals.items() if name in read and isinstance(value, Tensor)]
    return names_of(tuple(things), 2)


def _in_frame(frame: FrameType, things: tuple[Any, ...]) -> Iterator[str]:
    held = dict(frame.f_locals)
    if isinstance(owner := getattr(held.get("self"), "__dict__", None), dict):
        held = {**owner, **held}
    for name, value in held.items():
        if any(value is thing for thing in things):
            yield name
        elif type(value) is dict and len(value) <= MOST:
            yield from (str(key) for key, one in value.items() if any(one is thing for thing in things))
        elif type(value) in (tuple, list) and len(value) <= FEW:
            yield from (name for one in value if any(one is thing for thing in things))
