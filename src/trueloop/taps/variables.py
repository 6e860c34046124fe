"""The user's variables where the run stands, read without a trace.

Reading `f_locals` of a function makes CPython keep a copy of all its variables until the function ends, which would
keep tensors alive. The copy is emptied after the reading; a function that may hold that copy itself (by `locals()`) is
not read.
"""

import dis
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any, Final

from trueloop.usercode.ownership import is_users

__all__ = ["users_variables", "variables_of"]

_READERS: Final = frozenset({"locals", "vars", "exec", "eval", "dir"})


def users_variables(depth: int = 1, frames: int = 4) -> Iterator[Mapping[str, Any]]:
    """The variables of the user's running functions, innermost first."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and frames:
        if is_users(frame.f_code.co_filename):
            frames -= 1
            yield variables_of(frame)
        frame = frame.f_back


def variables_of(frame: FrameType) -> Mapping[str, Any]:
    """The variables of a function, or of a module."""
    code = frame.f_code
    if not code.co_flags & CO_OPTIMIZED:
        return dict(frame.f_locals)
    if _READERS.intersection(code.co_names) and _reads_variables(code):
        return {}
    kept = frame.f_locals
    variables = dict(kept)
    if isinstance(kept, dict):  # a proxy, without a copy, from Python 3.13 on
        kept.clear()
    return variables


@lru_cache(maxsize=256)
def _reads_variables(code: CodeType) -> bool:
    """It calls `locals()` or the like; `model.eval()` is an attribute."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    return any(one.opname in loads and one.argval in _READERS for one in dis.get_instructions(code))
