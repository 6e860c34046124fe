"""The process that opens strangers' files:

    python -I -c "... serve(SOCKET, ROOTS, MODULE)"

It confines itself, imports the module that reads, and says which fences stand. Then each message on the socket comes
with two open files: one to read, and a pipe for the answer. A child is forked for each, and confined further. So the
import of torch is paid once, and no file meets what another file has left behind.

The answer's first byte is `+` before what the reader wrote, or `-` before JSON with the kind and text of its error.

With a third open file, a pipe of questions, the reader keeps the file open and answers until that pipe is closed. Its
child ends with the process that asked, also where it no longer listens.
"""

import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from typing import Any, BinaryIO, Final

from trueloop.trust.confine.landlock import allow_reading_only
from trueloop.trust.confine.limits import Limits
from trueloop.trust.confine.namespaces import leave_network
from trueloop.trust.confine.seccomp import deny_harm, deny_processes, deny_writing

__all__ = ["MESSAGE", "Reader", "failure", "serve"]

MESSAGE: Final = 1 << 16  # Bytes of a message, at most
IDLE: Final = 60.0  # Seconds without a file, after which the worker ends
QUOTED: Final = 2000  # Characters of an error's text
LOOK: Final = 1.0  # Seconds between two looks whether the process that asked is still there
_READABLE: Final = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/self", "/sys/devices/system", "/dev/urandom",
)  # fmt: skip
"""Besides Python's and the packages' folders."""

Reader = Callable[..., None]
"""reader(file, out, **options): reads an open file, writes the answer. One that keeps the file open for questions:
reader(file, out, questions=..., **options)."""


def serve(handle: int, roots: list[str], module: str) -> None:
    """Returns when the other side has closed the socket, or has sent nothing for a while."""
    sys.path += [root for root in roots if root not in sys.path]  # last: never in place of Python's own modules
    with socket.socket(fileno=handle) as control:
        fences = {"namespaces": leave_network()}
        prefixes = (sys.prefix, sys.base_prefix, sys.exec_prefix)
        readable = (*prefixes, *filter(os.path.isabs, sys.path), *_READABLE)
        fences["landlock"] = allow_reading_only(readable, writable=("/dev/null",))
        fences["seccomp"] = deny_harm()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # for `_wait`
        tempfile.tempdir = "/nonexistent"  # torch asks for its name, and Python would look for one that can be written
        sys.modules["cuda.bindings"] = None  # type: ignore[assignment]  # torch tries it beside CUDA: it runs programs
        import_module(module)  # only now: whatever the import executes is confined, too
        if not fences["landlock"]:
            deny_writing()
        _tell(control, fences)
        control.settimeout(IDLE)
        while _serve_one(control):
            pass


def _serve_one(control: socket.socket) -> bool:
    try:
        message, handles, _, _ = socket.recv_fds(control, MESSAGE, 3)
    except TimeoutError:
        return False
    if not message:
        return False
    child = os.fork()
    if child == 0:
        control.close()
        try:
            _answer(json.loads(message), *handles)
        finally:
            os._exit(0)
    for handle in handles:
        os.close(handle)
    status = _wait(child, control)
    _tell(control, {"signal": status & 0x7F})
    return True


def _wait(child: int, control: socket.socket) -> int:
    """Its status. Ends it where the process that asked is gone: it would compute forever."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if signal.sigtimedwait({signal.SIGCHLD}, LOOK) is None and select.select([control], [], [], 0)[0]:
            os.kill(child, signal.SIGKILL)  # nothing is sent meanwhile: the other end was closed


def _tell(control: socket.socket, what: dict[str, Any]) -> None:
    os.write(control.fileno(), json.dumps(what).encode())  # as to a file: to send is denied


def _answer(asked: dict[str, Any], given: int, answer: int, *questions: int) -> None:
    for number in (signal.SIGPIPE, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)
    Limits(asked["memory"], asked["seconds"]).apply()
    deny_processes()
    with os.fdopen(given, "rb") as file, os.fdopen(answer, "wb") as out:
        reader: Reader = getattr(import_module(asked["module"]), asked["function"])
        checked = _Answer(out)
        more = {"questions": os.fdopen(questions[0], "rb")} if questions else {}
        try:
            reader(file, checked, **more, **asked["options"])
        except BaseException as error:  # noqa: BLE001 - whatever a malformed file makes a reader raise is the answer
            if checked.begun:
                os._exit(1)
            out.write(b"-" + failure(error))


def failure(error: BaseException) -> bytes:
    text = str(error)[:QUOTED].encode("utf-8", "replace").decode()
    return json.dumps({"kind": type(error).__name__, "text": text}).encode()


class _Answer:
    """The mark before the answer is written with its first byte, so an error before it can still be reported."""

    def __init__(self, out: BinaryIO) -> None:
        self.out, self.begun = out, False

    def write(self, data: bytes) -> int:
        if not self.begun:
            self.out.write(b"+")
            self.begun = True
        return self.out.write(data)

    def flush(self) -> None:
        self.out.flush()
