"""What a verb raises becomes a message and an exit code.

What the user's model, data or recipe raise is shown as Python shows it, without our frames, and ends with 1.
"""

import os
import re
import sys
import sysconfig
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trueloop.cli.rank import PATIENCE, let_first_rank_speak, lost_peer
from trueloop.errors import Apart, BadRecipe, CannotExport, CannotSave, MissingExtra, Misuse, TrueloopError
from trueloop.parallel.answer import leave_answer
from trueloop.results.check import ExitCode
from trueloop.trust.files import printable

__all__ = ["is_user_error", "report_user_errors"]

_PACKAGE: Final = Path(__file__).parent.parent
# torch raises a RuntimeError where the memory of the host is exhausted
_HOST_MEMORY: Final = re.compile(r"DefaultCPUAllocator: .*you tried to allocate (\d+) bytes")
_CALLS_MODULES: Final = str(Path("torch", "nn", "modules", "module.py"))
_LIBRARIES: Final = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))
_CODES: Final = {
    Misuse: ExitCode.MISUSE, CannotExport: ExitCode.FINDINGS, CannotSave: ExitCode.STOPPED, Apart: ExitCode.LOST_PEER,
    MissingExtra: ExitCode.TRUELOOP_FAILED,
}  # fmt: skip


def report_user_errors(error: BaseException) -> int:
    """Prints what a verb raised; returns the exit code."""
    if (lost := lost_peer(error)) is not None:
        time.sleep(PATIENCE)
        return _say(lost, ExitCode.LOST_PEER)
    if isinstance(error, KeyboardInterrupt):
        return _say("interrupted. Finished checkpoints are valid; `trueloop runs` lists runs.", ExitCode.INTERRUPTED)
    if not isinstance(error, Apart):
        let_first_rank_speak()
    if isinstance(error, BadRecipe) and error.__cause__ is not None:
        _show(error.__cause__)
        return _say(str(error), ExitCode.FINDINGS)
    if isinstance(error, TrueloopError):
        code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), ExitCode.TRUELOOP_FAILED)
        return _say(str(error), leave_answer(code) if code is ExitCode.MISUSE else code)
    if is_user_error(error):
        _show(error)
        return _say(_advice(error), ExitCode.FINDINGS)
    print("trueloop itself failed. Please report this to the trueloop project:", file=sys.stderr)
    traceback.print_exception(error)
    return ExitCode.TRUELOOP_FAILED


def _say(sentence: str, code: int) -> int:
    print(f"trueloop: {printable(sentence)}", file=sys.stderr)  # it may quote a file of a stranger
    return code


def is_user_error(error: BaseException) -> bool:
    """Raised in the user's files, inside a model, or because a device is out of memory?"""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return _is_memory(error) or any(_is_users(file) or file.endswith(_CALLS_MODULES) for file in files)


def _is_users(file: str) -> bool:
    path = Path(file)
    ours = any(path.is_relative_to(place) for place in (_PACKAGE, *_LIBRARIES))
    return path.is_file() and not ours and "site-packages" not in path.parts


def _is_memory(error: BaseException) -> bool:
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, RuntimeError) and _HOST_MEMORY.search(str(error)) is not None)


def _advice(error: BaseException) -> str:
    if _is_memory(error):
        asked, several = _HOST_MEMORY.search(str(error)), int(os.environ.get("WORLD_SIZE", "1")) > 1
        refused = f": this machine, or a limit of this process, refused {int(asked[1]) / 1e6:,.1f} MB" if asked else ""
        cure = "`--set accumulate=2` computes the same update with half the activations"
        parts = "; `--set parallel=fsdp` divides weights, gradients and optimizer state among the processes"
        return f"out of memory{refused}. {cure}{parts if several else ''}."
    return "the error above comes from your own code: the recipe, its model or its data. `trueloop runs` lists runs."


def _show(error: BaseException) -> None:
    """As Python shows it, without our frames and those with which torch calls a module."""
    shown = traceback.TracebackException.from_exception(error)
    for one in _chain(shown):
        one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if not _is_noise(frame.filename)])
    print("".join(shown.format()), file=sys.stderr, end="")


def _chain(first: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception and its causes."""
    current: traceback.TracebackException | None = first
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _is_noise(file: str) -> bool:
    ours = Path(file).is_relative_to(_PACKAGE) and not Path(file).is_relative_to(_PACKAGE / "recipes")
    return ours or file.endswith(_CALLS_MODULES)
