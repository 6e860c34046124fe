"""What torch.compile did: graph breaks and recompilations, from its own notes, read once when the run ends."""

import re
import traceback
from types import CodeType
from typing import Final

from trueloop.event import CompilerRan, GraphBreak, Place, Recompilation
from trueloop.observers.observer import Observer
from trueloop.taps.calls import RunEnd
from trueloop.taps.place import full_name, is_users
from trueloop.torch_private.compiler import compiler_notes

__all__ = ["CompilationObserver"]

REASONS: Final = 3  # reasons listed per function: they differ in a number
LENGTH: Final = 200  # characters of a reason: the compiler writes a page

_ASKED_FOR: Final = ("torch.compiler.disable", "_dynamo.disable", "graph_break()")
_LINE: Final = re.compile(r"([\w./\\-]+\.py):(\d+) in ")
"""`# self.n += 1 # scripts/train.py:8 in forward`: the compiler shortens the path."""


class CompilationObserver(Observer):
    emits = (CompilerRan,)
    safe_on_shards = True

    def prepare(self) -> None:
        graphs, breaks, failures = compiler_notes()
        self._before = (graphs, len(breaks), {code: len(reasons) for code, reasons in failures.items()})

    def run_ended(self, end: RunEnd) -> None:
        graphs, breaks, failures = compiler_notes()
        graphs_before, breaks_before, failures_before = self._before
        made = graphs - graphs_before if graphs >= graphs_before else graphs  # fewer: the compiler was reset
        if not made:
            return
        fresh = breaks[breaks_before:] if len(breaks) >= breaks_before else breaks
        found = {b.place: b for reason, stack in fresh if (b := _break(reason, stack)) is not None}
        again = [_again(code, reasons[failures_before.get(code, 0) :]) for code, reasons in failures.items()]
        repeated = tuple(recompilation for recompilation in again if recompilation is not None)
        self.emit(CompilerRan, None, made, tuple(found.values()), repeated)


def _break(reason: str, stack: list[traceback.FrameSummary]) -> GraphBreak | None:
    """At the innermost line of the user; None inside a library."""
    for frame in reversed(stack):
        if is_users(frame.filename):
            title = reason.partition("\n")[0]
            place = Place(full_name(frame.filename), frame.lineno or 0, _original(frame.name))
            return GraphBreak(place, _in_one_line(reason), any(words in title for words in _ASKED_FOR))
    return None


def _again(code: CodeType, reasons: list[str]) -> Recompilation | None:
    """Each compiled version that did not fit has a number; every new version names all older ones."""
    if not reasons or not is_users(code.co_filename):
        return None
    versions = {reason.partition(":")[0]: reason.partition(":")[2].strip() for reason in reasons}
    reported = [_in_one_line(reason.partition(" # ")[0]) for reason in versions.values()]
    path = full_name(code.co_filename)
    place = Place(path, _line_of(reasons[-1], path) or code.co_firstlineno, code.co_qualname)
    return Recompilation(place, _original(code.co_name), len(versions), tuple(dict.fromkeys(reported))[:REASONS])


def _line_of(reason: str, path: str) -> int:
    """The line that needs what has changed, if the compiler names one of this file."""
    lines = [int(number) for shown, number in _LINE.findall(reason) if path.endswith(shown)]
    return lines[0] if lines else 0


def _original(name: str) -> str:
    """The rest of a function after a graph break is compiled as its own function."""
    return re.sub(r"^torch_dynamo_resume_in_(.+)_at_\d+$", r"\1", name)


def _in_one_line(reason: str) -> str:
    """The compiler's headline and its explanation."""
    if reason.startswith("generic_jump"):
        return "a branch on the value of a tensor"
    lines = reason.strip().splitlines()
    stripped = (line.strip() for line in lines[1:])
    explained = [x.removeprefix("Explanation:").strip() for x in stripped if x.startswith("Explanation:")]
    said = " ".join(": ".join([*lines[:1], *explained[:1]]).split())
    return said if len(said) <= LENGTH else said[: LENGTH - 1] + "…"
