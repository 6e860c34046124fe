"""Why a target cannot take a model: the user's line, what is wrong there, and what to write instead."""

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

__all__ = ["explain_failure"]

_FILE: Final = re.compile(r'File "([^"]+)", line (\d+)')
_GUARD: Final = re.compile(r"eval Eq\(\w+, \d+\) \[guard added\].*?\(([^()]+\.py):(\d+) in")
_OPERATION: Final = re.compile(
    r"(?:op='|OpOverload\(op='|torch\.ops\.|operator[: ]+'?|Missing operator: \[\d+\] )"
    r"((?:aten|torchvision|\w+)(?:\.|::)\w+(?:\.\w+)?)"
)
_TRACERS: Final = tuple(str(Path("trueloop", "export", name)) for name in ("trace.py", "torchscript.py"))
"""Call the model: frames above are not the model's."""
_RECIPES: Final = str(Path("trueloop", "recipes")) + "/"
_DATA: Final = ("data-dependent", "DataDependent", "unbacked")
_SHAPE: Final = ("Constraints violated", "inferred to be a constant", "specialized", "must be specialized")
_ADVICE: Final = (
    (
        _DATA,
        "The control flow depends on tensor values here, but an exported program has a fixed control flow. Use "
        "torch.where or torch.cond, or decide by a setting of the model or by a shape. `.item()`, `.tolist()` and "
        "`int(tensor)` read tensor values.",
    ),
    (
        _SHAPE,
        "The model fixes a size that must stay dynamic: a constant is used instead of the batch size, x.shape[0]. "
        "Write x.flatten(1), or x.view(x.shape[0], -1).",
    ),
    (
        ("No ONNX function", "DispatchError", "ConversionError", "Unsupported FX nodes"),
        "ONNX has no such operation: write it in simpler ones, or choose --to pt2 or aoti.",
    ),
    (
        ("Missing operator", "MISSING_OPERATOR", "not in the Core ATen opset", "not a core ATen operator"),
        "ExecuTorch has no such operation: write it in simpler ones, or choose --to pt2, aoti or onnx.",
    ),
    (("numpy", "Numpy"), "Operations outside torch cannot be exported: use tensors only."),
)
"""Phrases of torch's message -> what to change."""
QUOTED: Final = 240  # Characters of torch's own message that are quoted

Line = tuple[str, int]


def explain_failure(error: Exception, target: str, retrace: Callable[[], Any]) -> CannotExport:
    """`retrace` runs torch.export again, and may fail again: its log tells which line fixed a size."""
    text = "\n".join(f"{type(each).__name__}: {each}" for each in _chain(error))
    graph, fixed = _trace_again(retrace)
    operation = None if any(word in text for word in (*_DATA, *_SHAPE)) else _OPERATION.search(text)
    named = operation[1] if operation else ""
    place = _line_of_error(error) or _line_of_node(error) or _line_in(text) or fixed or _line_of_operation(graph, named)
    known = (advice for words, advice in _ADVICE if any(word in text for word in words))
    advice = next(known, f"{target} does not support this model.")
    at = f"{place[0]}:{place[1]}: `{linecache.getline(*place).strip()}` cannot be exported. " if place else ""
    named = f"The operation is {operation[1]}. " if operation else ""
    return CannotExport(f"{at}{named}{advice} ({_first_message(error)}) Nothing was exported.")


# -- the line that fixed a size: torch reports it only in its log --


def _trace_again(retrace: Callable[[], Any]) -> tuple[Any, Line | None]:
    """The graph or None, and the user's line that fixed a size, if there is one."""
    listener = _Listener()
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    before = logger.level, logger.propagate, logger.handlers
    logger.setLevel(logging.INFO)
    logger.propagate, logger.handlers = False, [listener]
    try:
        return retrace(), None
    except Exception:  # noqa: BLE001 - the error that is being explained, again
        return None, listener.place
    finally:
        logger.setLevel(before[0])
        logger.propagate, logger.handlers = before[1:]


@final
class _Listener(logging.Handler):
    """Records the first line that made a dynamic size constant."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.place: Line | None = None

    def emit(self, record: logging.LogRecord) -> None:
        found = _GUARD.search(record.getMessage())
        if found is not None and self.place is None:
            self.place = _current_line() or _full_path(found[1], int(found[2]))


def _current_line() -> Line | None:
    """The user's line that is executing now. The log names a line of torch, or a shortened path."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.endswith(_TRACERS):
        if _is_theirs(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _full_path(shortened: str, line: int) -> Line | None:
    """torch omits the part of a path that it has in common with its own."""
    for folder in (Path(), *Path(torch.__file__).parents):
        file = folder / shortened
        if file.is_file() and _is_theirs(str(file)):
            return str(file.absolute()), line
    return None


# -- other lines --


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _first_message(error: BaseException) -> str:
    """Of the original error: the later ones follow from it."""
    first = list(_chain(error))[-1]
    lines = [line.strip() for line in str(first).splitlines() if line.strip()]
    text = " ".join(lines[:2]).partition(" For more information")[0][:QUOTED]
    return f"{type(first).__name__}: {text or 'no message'}"


def _is_theirs(file: str) -> bool:
    return is_users(file) or _RECIPES in file


def _line_of_error(error: BaseException) -> Line | None:
    """The innermost user frame of the traceback."""
    for each in reversed(list(_chain(error))):
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(each.__traceback__)]
        if theirs := [frame for frame in frames if _is_theirs(frame[0]) and Path(frame[0]).is_file()]:
            return theirs[-1]
    return None


def _line_of_node(error: BaseException) -> Line | None:
    """Of the graph node that an exporter was converting when it failed."""
    for each in reversed(list(_chain(error))):
        for frame, _ in traceback.walk_tb(each.__traceback__):
            node = frame.f_locals.get("node")
            if isinstance(node, torch.fx.Node) and (found := _line_in(str(node.meta.get("stack_trace", "")))):
                return found
    return None


def _line_in(text: str) -> Line | None:
    found = [(file, int(line)) for file, line in _FILE.findall(text) if _is_theirs(file)]
    return found[-1] if found else None


def _line_of_operation(graph: Any, operation: str) -> Line | None:
    if not isinstance(graph, torch.export.ExportedProgram) or not operation:
        return None
    wanted = operation.replace("::", ".")
    nodes = [node for node in graph.graph.nodes if node.op == "call_function" and str(node.target).startswith(wanted)]
    return next(filter(None, (_line_in(str(node.meta.get("stack_trace", ""))) for node in nodes)), None)
