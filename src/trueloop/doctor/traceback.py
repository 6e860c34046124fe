"""Exceptions of the user's, as they would look without us: our frames are taken out of every traceback before anybody
sees it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NoReturn

from trueloop.taps.place import UNSEEN
from trueloop.taps.tap import Patch

__all__ = ["CleanTracebacks", "exit_process", "register_exit_handler", "show", "strip"]

_HOUSE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def strip(error: BaseException) -> None:
    """Take our frames out of an exception, and out of all that it came from or holds."""
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
    first = trace = _next_of_theirs(trace)
    while trace is not None:
        following = _next_of_theirs(trace.tb_next)
        if following is not trace.tb_next:
            trace.tb_next = following
        trace = following
    return first


def _next_of_theirs(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_ours(filename: str) -> bool:
    return filename == UNSEEN or filename.startswith(_HOUSE)


def show(error: BaseException) -> None:
    """Print what ended the script, as Python would: through the script's own sys.excepthook, if it has one."""
    strip(error)
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            sys.stderr.write(f"{error.code}\n")
        return
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as broken:  # noqa: BLE001 - the hook is the script's; Python reports it in these words and goes on
        strip(broken)
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)


def exit_process(error: BaseException | None, code: int) -> NoReturn:
    """End this process as Python would have: by the code, or after Ctrl-C by the signal, which a shell tells from any
    exit code."""
    if isinstance(error, KeyboardInterrupt):
        _ending.by_signal = True
    sys.exit(code)


class _Ending:
    """How the process is to end, once the exit handlers of the script have run."""

    by_signal = False

    def __call__(self) -> None:
        if self.by_signal:
            sys.stdout.flush()
            sys.stderr.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


_ending = _Ending()


def register_exit_handler() -> None:
    """To be called before the script runs: exit handlers run in reverse, so ours then comes after all of the
    script's."""
    atexit.register(_ending)


class CleanTracebacks:
    """While a run is watched, also the tracebacks that the script prints itself (`traceback`, `logging`, threads) are
    clean."""

    def __init__(self) -> None:
        self._patches: list[Patch] = []

    def install(self) -> None:
        self._patches = [
            Patch(traceback.TracebackException, "__init__", _wrap_init),
            Patch(threading, "excepthook", _wrap_thread_hook),
        ]

    def remove(self) -> None:
        for patch in self._patches:
            patch.undo()
        self._patches.clear()


def _wrap_init(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, exc_type: Any, exc_value: Any, exc_traceback: Any, *args: Any, **kwargs: Any) -> None:
        # What we caught ourselves is our own failure, and shown whole.
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
