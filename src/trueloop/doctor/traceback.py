"""The user's exceptions as they look without trueloop: its frames are removed from every traceback."""

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NoReturn

from trueloop.taps.place import OVERRIDES, UNSEEN
from trueloop.taps.tap import Patch
from trueloop.usercode.notebook import is_cell

__all__ = ["CleanTracebacks", "exit_process", "register_exit_handler", "show", "strip"]

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def strip(error: BaseException) -> None:
    """Remove trueloop's frames from an exception, its causes and its members."""
    waiting, seen = [error], {id(error)}
    while waiting:
        one = waiting.pop()
        one.__traceback__ = _without_ours(one.__traceback__)
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        for other in (one.__cause__, one.__context__, *inner):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    chain: list[TracebackType] = []
    while trace is not None:
        chain.append(trace)
        trace = trace.tb_next
    foreign = [index for index, one in enumerate(chain) if not _is_ours(_file(one))]
    kept = [chain[index] for index in foreign if not _is_detour(chain[index : index + 4])]
    following: TracebackType | None = None
    for one in reversed(kept):
        if one.tb_next is not following:
            one.tb_next = following
        following = one
    return following


def _is_detour(chain: list[TracebackType]) -> bool:
    """A function of torch hands its call to our function mode, which calls it again: the first call and the handing."""
    names = [(_file(one).endswith(OVERRIDES), one.tb_frame.f_code.co_name) for one in chain]
    handed = (True, "handle_torch_function")
    if names[0] == handed:
        return len(chain) > 1 and _is_ours(_file(chain[1]))
    again = len(chain) > 3 and chain[3].tb_frame.f_code is chain[0].tb_frame.f_code
    return again and names[1] == handed and _is_ours(_file(chain[2]))


def _file(trace: TracebackType) -> str:
    return trace.tb_frame.f_code.co_filename


def _is_ours(filename: str) -> bool:
    return filename == UNSEEN or filename.startswith(_PACKAGE)


def show(error: BaseException) -> None:
    """Print the exception that ended the script, as Python would: through the script's own sys.excepthook."""
    strip(error)
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            sys.stderr.write(f"{error.code}\n")
        return
    if sys.excepthook is sys.__excepthook__ and _crosses_a_cell(error):
        traceback.print_exception(error)  # Python's own hook reads source lines from files only
        return
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as broken:  # noqa: BLE001 - the script's own hook: reported as Python does
        strip(broken)
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def _crosses_a_cell(error: BaseException) -> bool:
    return any(is_cell(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


def exit_process(error: BaseException | None, code: int) -> NoReturn:
    """End this process as Python would: with the code, or after Ctrl-C with the signal, which shells distinguish."""
    if isinstance(error, KeyboardInterrupt):
        _interrupted.set()
    sys.exit(code)


_interrupted: Final = threading.Event()


def _exit_by_signal() -> None:
    if _interrupted.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def register_exit_handler() -> None:
    """Call it before the script runs: exit handlers run in reverse order, so this one comes after the script's."""
    atexit.register(_exit_by_signal)


class CleanTracebacks:
    """Cleans tracebacks that the script itself prints (`traceback`, `logging`, threads) while a run is watched."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []

    def install(self) -> None:
        init = Patch(traceback.TracebackException, "__init__", _wrap_init)
        self._patches = [init, Patch(threading, "excepthook", _wrap_thread_hook)]

    def remove(self) -> None:
        for patch in self._patches:
            patch.undo()
        self._patches.clear()


def _wrap_init(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, exc_type: Any, exc_value: Any, exc_traceback: Any, *args: Any, **kwargs: Any) -> None:
        # What trueloop caught itself is its own failure, and is shown completely.
        if exc_traceback is not None and not _is_ours(exc_traceback.tb_frame.f_code.co_filename):
            exc_traceback = _without_ours(exc_traceback)
        original(self, exc_type, exc_value, exc_traceback, *args, **kwargs)

    return __init__


def _wrap_thread_hook(original: Callable[[Any], None]) -> Callable[[Any], None]:
    def excepthook(args: Any) -> None:
        if args.exc_value is not None:
            strip(args.exc_value)
        original(args)

    return excepthook
