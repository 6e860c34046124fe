"""What torch.compile has done in this process: graphs, breaks and recompiles with their lines, and how long it took."""

from __future__ import annotations

from traceback import FrameSummary

from torch._dynamo import utils as compiler

from trueloop.event import Place
from trueloop.results.profile import Compiled, CompilerNote
from trueloop.taps.internals import compiler_said
from trueloop.taps.place import is_users

__all__ = ["compile_facts"]


def compile_facts() -> Compiled | None:
    """None if nothing was compiled."""
    graphs, breaks, failures = compiler_said()
    if not graphs and not breaks:
        return None
    recompiles = tuple(
        CompilerNote(reason, Place(code.co_filename, code.co_firstlineno, code.co_name))
        for code, reasons in failures.items()
        for reason in reasons
    )
    return Compiled(
        graphs=graphs,
        seconds=_seconds(),
        breaks=tuple(CompilerNote(reason.split("\n")[0], _place(stack)) for reason, stack in breaks),
        recompiles=recompiles,
    )


def _seconds() -> float:
    """Of the outermost of the compiler's own measures."""
    times: dict[str, list[float]] = getattr(compiler, "compilation_time_metrics", {})
    outer = next((name for name in ("_compile.compile_inner", "entire_frame_compile") if name in times), None)
    return sum(times[outer]) if outer else 0.0


def _place(stack: list[FrameSummary]) -> Place | None:
    own = [frame for frame in stack if is_users(frame.filename)]
    return Place(own[-1].filename, own[-1].lineno or 0, own[-1].name) if own else None
