"""What torch.compile did in this process: graphs, breaks and recompiles with their lines, and the compile time."""

from traceback import FrameSummary

from trueloop.event import Place
from trueloop.results.profile import Compiled, CompilerNote
from trueloop.taps.place import is_users
from trueloop.torch_private.compiler import compile_seconds, compiler_notes

__all__ = ["compile_facts"]


def compile_facts() -> Compiled | None:
    """None if nothing was compiled."""
    graphs, breaks, failures = compiler_notes()
    if not graphs and not breaks:
        return None
    recompiles = tuple(
        CompilerNote(reason, Place(code.co_filename, code.co_firstlineno, code.co_name))
        for code, reasons in failures.items()
        for reason in reasons
    )
    return Compiled(
        graphs=graphs,
        seconds=compile_seconds(),
        breaks=tuple(CompilerNote(reason.split("\n")[0], _place(stack)) for reason, stack in breaks),
        recompiles=recompiles,
    )


def _place(stack: list[FrameSummary]) -> Place | None:
    own = [frame for frame in stack if is_users(frame.filename)]
    return Place(own[-1].filename, own[-1].lineno or 0, own[-1].name) if own else None
