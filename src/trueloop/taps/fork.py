"""Runs the user's code in a forked copy of this process, without side effects on the run: only the result comes back.

The fork is isolated. Its sockets, pipes and writable files are replaced by /dev/null, and shared memory is read-only.
Writing a file, starting a program, or running too long ends it. The run continues in any case; the offsets of open
files, which both processes share, are restored.
"""

import ctypes
import gc
import os
import pickle
import signal
import stat
import sys
from collections.abc import Callable
from select import select
from time import monotonic
from typing import Any, Final, NoReturn

import torch

from trueloop.taps.without_warnings import without_warnings

if sys.platform == "linux":
    import fcntl
    import resource

__all__ = ["CannotFork", "run_in_fork"]

_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READ: Final = 1  # PROT_READ
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_FORBIDDEN: Final = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.system", "os.exec",
    "os.chmod",
    "os.posix_spawn", "subprocess.Popen", "socket.connect", "socket.bind", "shutil.rmtree", "shutil.move",
    "sqlite3.connect", "os.putenv",
)  # fmt: skip
"""Audit events with effects outside of the process."""


class CannotFork(Exception):
    """The code could not run in a fork, or not finish; the message says why."""


def run_in_fork(work: Callable[[], Any], seconds: float, *, with_cuda: bool = False) -> Any:
    """The result of `work` in a fork of this process, within some seconds. Forks may be nested.

    A process that uses CUDA is forked only if the user's program forks it too, for its workers.
    """
    if sys.platform != "linux":
        raise CannotFork("forking is only supported on Linux")
    if torch.cuda.is_initialized() and not with_cuda:  # type: ignore[no-untyped-call]
        raise CannotFork("a process that uses CUDA cannot be forked")
    reading, writing = os.pipe()
    offsets = _offsets()
    with without_warnings(DeprecationWarning):  # Python 3.12 warns about threads; the fork uses none
        child = os.fork()
    if child == 0:
        _answer(work, reading, writing)
    os.close(writing)
    try:
        data = _read(reading, seconds)
    finally:
        os.close(reading)
        _end(child)
        for number, offset in offsets.items():
            os.lseek(number, offset, os.SEEK_SET)
    if data is None:
        raise CannotFork(f"it took longer than {seconds:g} s")
    if not data:
        raise CannotFork("it tried to affect something outside of the process, or died")
    good, value = pickle.loads(data)
    if not good:
        raise CannotFork(str(value).removeprefix("CannotFork: "))
    return value


# -- outside --


def _read(reading: int, seconds: float) -> bytes | None:
    """Everything until the other side closes the pipe; None if that takes too long."""
    until = monotonic() + seconds
    pieces: list[bytes] = []
    while (left := until - monotonic()) > 0 and select([reading], [], [], left)[0]:
        piece = os.read(reading, 1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return None


def _end(child: int) -> None:
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except ChildProcessError:
        return  # a handler of the user's has reaped it already


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]


def _offsets() -> dict[int, int]:
    """The offset of each open file."""
    offsets = {}
    for number in _numbers():
        try:
            if stat.S_ISREG(os.fstat(number).st_mode):
                offsets[number] = os.lseek(number, 0, os.SEEK_CUR)
        except OSError:
            continue  # the descriptor that listed them
    return offsets


# -- inside --


def _answer(work: Callable[[], Any], reading: int, writing: int) -> NoReturn:
    """In the child: run the work, send the result, and exit without the program's exit handlers."""
    try:
        os.close(reading)
        gc.disable()  # a collection would copy the parent's pages and run its finalizers
        sys.settrace(None)
        sys.setprofile(None)
        _isolate(writing)
        torch.set_num_threads(1)  # the parent's thread pool does not exist here
        answer = (True, work())
    except BaseException as error:  # noqa: BLE001 - raised by the user's code, and reported to the parent
        answer = (False, f"{type(error).__name__}: {str(error)[:200]}")
    try:
        data = pickle.dumps(answer)
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)


def _isolate(writing: int) -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(signal_number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = ctypes.CDLL(None)
    library.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in _numbers():
        try:
            kind, writable = os.fstat(number).st_mode, fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR)
        except OSError:
            continue  # the descriptor that listed them
        if number != writing and (writable or not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISCHR(kind))):
            os.dup2(nowhere, number)
    _protect_shared_memory(library)
    sys.addaudithook(_exit_on_side_effect)
    setattr(torch, "save", lambda *_, **__: os._exit(1))  # noqa: B010 - it opens its file without an audit event


def _protect_shared_memory(library: ctypes.CDLL) -> None:
    """Make shared mappings read-only: a write would be visible outside."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        shared = [line.split()[0] for line in maps if " rw-s " in line]
    for span in shared:
        first, last = (int(address, 16) for address in span.split("-"))
        library.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _READ)


def _exit_on_side_effect(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING and arguments[0] != os.devnull:
        os._exit(1)
    if event in _FORBIDDEN:
        os._exit(1)
