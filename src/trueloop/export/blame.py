"""Why a target cannot take a model, in a sentence: which line of the user's, what stands there, what to write
instead."""

from __future__ import annotations

import linecache
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, final

import torch

from trueloop.errors import CannotExport
from trueloop.usercode.ownership import is_users

__all__ = ["explained"]

_FILE: Final = re.compile(r'File "([^"]+)", line (\d+)')
_GUARD: Final = re.compile(r"eval Eq\(\w+, \d+\) \[guard added\].*?\(([^()]+\.py):(\d+) in")
_OPERATION: Final = re.compile(
    r"(?:op='|OpOverload\(op='|torch\.ops\.|operator[: ]+'?|Missing operator: \[\d+\] )((?:aten|torchvision|\w+)(?:\.|::)\w+(?:\.\w+)?)"
)
_TRACER: Final = str(Path("trueloop", "export", "traced.py"))
"""Who called the model to be traced: whoever called that one is not to blame."""
_RECIPES: Final = str(Path("trueloop", "recipes")) + "/"
_ADVICE: Final = (
    (
        ("data-dependent", "DataDependent", "unbacked"),
        "The way through the model depends on values of its data there, and an exported program has one way only. Choose by torch.where or "
        "torch.cond; decide by a setting of the model, or by a shape, where you can; .item(), .tolist() and int(tensor) are such values.",
    ),
    (
        ("Constraints violated", "inferred to be a constant", "specialized", "must be specialized"),
        "The model fixes a size that must stay free: a number stands where the batch's size, x.shape[0], is meant. Write x.flatten(1), or "
        "x.view(x.shape[0], -1).",
    ),
    (
        ("No ONNX function", "DispatchError", "ConversionError", "Unsupported FX nodes"),
        "ONNX has no such operation: write it in simpler ones, or choose --to pt2 or aoti.",
    ),
    (
        ("Missing operator", "MISSING_OPERATOR", "not in the Core ATen opset", "not a core ATen operator"),
        "ExecuTorch has no such operation: write it in simpler ones, or choose --to pt2, aoti or onnx.",
    ),
    (
        ("numpy", "Numpy"),
        "What leaves torch cannot be exported: stay with tensors.",
    ),
)
"""Words of torch's message -> what to change."""
SPOKEN: Final = 240
"""Letters of torch's own message that are handed on."""


def explained(error: Exception, target: str, retrace: Callable[[], Any]) -> CannotExport:
    """`retrace`: makes torch's exported graph once more, and may fail again: what it did on the way is listened to."""
    said = "\n".join(f"{type(each).__name__}: {each}" for each in _chain(error))
    graph, fixed = _once_more(retrace)
    operation = None if _is_choice(said) else _OPERATION.search(said)
    place = (
        _place(error)
        or _translated(error)
        or _told(said)
        or fixed
        or _operation_place(graph, operation[1] if operation else "")
    )
    advice = next(
        (advice for words, advice in _ADVICE if any(word in said for word in words)),
        f"{target} cannot take this model.",
    )
    at = f"{place[0]}:{place[1]}: `{linecache.getline(*place).strip()}` cannot be exported. " if place else ""
    named = f"The operation is {operation[1]}. " if operation else ""
    return CannotExport(f"{at}{named}{advice} ({_first_line(error)}) Nothing was exported.")


# -- where a size became fixed: torch says it only in its log --


def _once_more(retrace: Callable[[], Any]) -> tuple[Any, tuple[str, int] | None]:
    """The graph, or None; and the user's line that fixed a size, if there is one."""
    heard = _Listener()
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    before = logger.level, logger.propagate, logger.handlers
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [heard]
    graph = None
    try:
        graph = retrace()
    except Exception:  # noqa: BLE001 - the error that is being explained, again
        heard.failed = True
    finally:
        logger.setLevel(before[0])
        logger.propagate, logger.handlers = before[1:]
    return graph, heard.place if heard.failed else None


@final
class _Listener(logging.Handler):
    """Hears which line made a free size a number."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.place: tuple[str, int] | None = None
        self.failed = False

    def emit(self, record: logging.LogRecord) -> None:
        found = _GUARD.search(record.getMessage())
        if found is not None and self.place is None:
            self.place = _being_traced() or _whole(found[1], int(found[2]))


def _being_traced() -> tuple[str, int] | None:
    """The user's line that is run at this moment, inside the model: a log would name a line of torch's, or half a
    path."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith(_TRACER):
        if _is_theirs(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _whole(shortened: str, line: int) -> tuple[str, int] | None:
    """torch leaves out what a path has in common with its own."""
    for folder in (Path(), *Path(torch.__file__).parents):
        file = folder / shortened
        if file.is_file() and _is_theirs(str(file)):
            return str(file.absolute()), line
    return None


def _is_choice(said: str) -> bool:
    return any(word in said for word in (*_ADVICE[0][0], *_ADVICE[1][0]))


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _first_line(error: BaseException) -> str:
    """What torch said first of all: what follows is about that."""
    first = list(_chain(error))[-1]
    lines = [line.strip() for line in str(first).splitlines() if line.strip()]
    return f"{type(first).__name__}: {' '.join(lines[:2]).partition(' For more information')[0][:SPOKEN] if lines else 'no words'}"


def _is_theirs(file: str) -> bool:
    return is_users(file) or _RECIPES in file


def _place(error: BaseException) -> tuple[str, int] | None:
    """The deepest line of the user's on the way to the error."""
    for each in reversed(list(_chain(error))):
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(each.__traceback__)]
        if theirs := [frame for frame in frames if _is_theirs(frame[0]) and Path(frame[0]).is_file()]:
            return theirs[-1]
    return None


def _translated(error: BaseException) -> tuple[str, int] | None:
    """Of the operation that an exporter was at when it failed: operations know the lines that they were written in."""
    for each in reversed(list(_chain(error))):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            node = frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node) and (found := _told(str(node.meta.get("stack_trace", "")))):
                return found
    return None


def _told(said: str) -> tuple[str, int] | None:
    found = [(file, int(line)) for file, line in _FILE.findall(said) if _is_theirs(file)]
    return found[-1] if found else None


def _operation_place(graph: Any, operation: str) -> tuple[str, int] | None:
    """Where the user wrote this operation."""
    if not isinstance(graph, torch.export.ExportedProgram) or not operation:
        return None
    wanted = operation.replace("::", ".")
    for node in graph.graph.nodes:
        if node.op == "call_function" and str(node.target).startswith(wanted):
            found = _told(str(node.meta.get("stack_trace", "")))
            if found is not None:
                return found
    return None
