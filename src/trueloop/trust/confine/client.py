"""Asking a confined worker to open a file. One worker per module that reads is kept for the next file."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

from trueloop.trust.confine.limits import Limits
from trueloop.trust.confine.worker import MESSAGE
from trueloop.trust.files import printable

__all__ = ["LIMITS", "Refused", "Unconfined", "Worker", "failure_of", "how_it_ended", "order", "read_confined"]

START: Final = 300.0  # Seconds to import torch, on a busy machine
BOOT: Final = """\
import sys, json
handle, root, roots, module = sys.argv[1:]
if root not in sys.path:
    sys.path.insert(0, root)
from trueloop.trust.confine.worker import serve
serve(int(handle), json.loads(roots), module)
"""
PACKAGES: Final = ("torch", "numpy", "safetensors", "onnxruntime", "executorch")
LIMITS: Final = (
    "Limit",
    "Crash",
    "Unconfined",
    "Worker",
    "NotPlain",
)  # Kinds of Refused that are not a reader's own error
_NO_MEMORY: Final = ("allocate memory", "not enough memory", "bad_alloc", "bad allocation")
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ROOT: Final = str(Path(__file__).resolve().parents[3])


class Refused(Exception):
    """The file was not opened, or not to the end. `kind`: the type of the reader's error, or Limit or Unconfined."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Unconfined(Refused):
    """Nothing here keeps a file that executes code from doing harm."""

    def __init__(self) -> None:
        why = "this system has no seccomp or Landlock to confine its reader; if you trust its author, add --trust"
        super().__init__("Unconfined", why)


def read_confined(reader: str, data: bytes | int, limits: Limits, most: int, **options: Any) -> bytes:
    """What `reader` ("package.module:function") writes about a file, at most so many bytes. `data`: the file's bytes,
    or the number of an open file. The answer is as untrusted as the file. Raises Refused."""
    module, message = order(reader, limits, options)
    given = data if isinstance(data, int) else _in_memory(data)
    try:
        with _lock:
            return _Workers.of(module).ask(message, given, limits, most)
    finally:
        if not isinstance(data, int):
            os.close(given)


def order(reader: str, limits: Limits, options: Mapping[str, Any]) -> tuple[str, bytes]:
    """The module that a worker imports, and the message that it is sent. Raises Unconfined on other systems."""
    if not hasattr(os, "memfd_create"):
        raise Unconfined
    module, function = reader.split(":")
    asked = {"module": module, "function": function, "options": options}
    message = json.dumps({**asked, "memory": limits.memory, "seconds": limits.seconds}).encode()
    assert len(message) < MESSAGE, "options are short"
    return module, message


def _in_memory(data: bytes) -> int:
    handle = os.memfd_create("file", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(data)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


_lock: Final = threading.Lock()


@final
class _Workers:
    """One per module, in this process: a forked child must not talk to its parent's."""

    _running: Final[dict[tuple[int, str], "Worker"]] = {}

    @classmethod
    def of(cls, module: str) -> "Worker":
        key = (os.getpid(), module)
        found = cls._running.get(key)
        if found is None or not found.is_alive():
            if found is not None:
                found.close()
            found = cls._running[key] = Worker(module)
        return found

    @classmethod
    def close_all(cls) -> None:
        for (process, _), worker in cls._running.items():
            if process == os.getpid():
                worker.close()
        cls._running.clear()


atexit.register(_Workers.close_all)


@final
class Worker:
    """A running worker. Raises Unconfined where it cannot confine itself. `computes`: with as many threads as here."""

    def __init__(self, module: str, *, computes: bool = False) -> None:
        self._empty = tempfile.mkdtemp(prefix="trueloop-empty-")
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-c", BOOT, str(other.fileno()), _ROOT, json.dumps(_roots(module)), module]
        with other:
            self._process = subprocess.Popen(
                command,
                pass_fds=(other.fileno(),),
                cwd=self._empty,
                env=_environment(computes=computes),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control.settimeout(START)
        try:
            fences = json.loads(self._control.recv(MESSAGE))
        except (OSError, ValueError):
            self.close()
            raise Refused("Worker", "the confined process that would read it did not start") from None
        # Seccomp alone denies network and writing; Landlock alone leaves the network.
        if not fences["seccomp"] and not (fences["landlock"] and fences["namespaces"]):
            self.close()
            raise Unconfined

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, message: bytes, given: int, limits: Limits, most: int) -> bytes:
        reading, writing = os.pipe()
        until = time.monotonic() + limits.patience
        try:
            try:
                self.hand_over(message, [given, writing])
            finally:
                os.close(writing)
            answer = _read_all(reading, max(most, MESSAGE) + 1, until)  # an error has room, too
            ended = self.signal_of_child(until - time.monotonic())
        except _TooMuch as error:
            self.close()
            raise Refused("Limit", str(error)) from None
        except (OSError, ValueError):  # TimeoutError is an OSError
            self.close()
            raise Refused("Limit", f"reading it took longer than {limits.patience:.0f} s") from None
        finally:
            os.close(reading)
        return _checked(answer, ended, limits)

    def hand_over(self, message: bytes, files: list[int]) -> None:
        socket.send_fds(self._control, [message], files)

    def signal_of_child(self, seconds: float) -> int:
        """Waits for its end; 0: it ended by itself. Raises OSError or ValueError."""
        self._control.settimeout(max(1.0, seconds))
        return int(json.loads(self._control.recv(MESSAGE))["signal"])

    def close(self) -> None:
        """With its child, which cannot leave its process group."""
        self._control.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with suppress(OSError):
            os.rmdir(self._empty)


class _TooMuch(Exception):
    """More time or bytes than allowed."""


def _read_all(handle: int, most: int, until: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        ready, _, _ = select.select([handle], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(handle, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > most:
            raise _TooMuch(f"it unpacks to more than {most / 1e6:,.0f} MB")


def _checked(answer: bytes, ended: int, limits: Limits) -> bytes:
    if ended == signal.SIGXCPU or ended == signal.SIGKILL:
        raise Refused("Limit", f"reading it took longer than {limits.seconds:.0f} s")
    if ended:
        raise Refused("Crash", f"the confined process that read it {how_it_ended(ended)}")
    if answer[:1] == b"+":
        return answer[1:]
    raise failure_of(answer[1:], limits)


def how_it_ended(number: int) -> str:
    name = next((each.name for each in signal.Signals if each == number), f"signal {number}")
    return f"was ended by {name}" if number else "ended"


def failure_of(answer: bytes, limits: Limits, what: str = "reading it") -> Refused:
    """What a worker says about an error. It is as untrusted as the file."""
    try:
        failure = json.loads(answer)
        kind, text = str(failure["kind"]), str(failure["text"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return Refused("Crash", "the confined process that read it gave no answer")
    if kind == "MemoryError" or any(words in text for words in _NO_MEMORY):
        return Refused("Limit", f"{what} needs more than {limits.memory / 1e6:,.0f} MB of memory")
    return Refused(printable(kind)[:80], printable(text))


def _roots(module: str) -> list[str]:
    """Folders of the packages that a reader needs, as this process finds them: PYTHONPATH is not the worker's."""
    found = (find_spec(name) for name in (module.partition(".")[0], *PACKAGES))
    places = [str(Path(spec.origin).parents[1]) for spec in found if spec is not None and spec.origin]
    return list(dict.fromkeys(places))


def _environment(*, computes: bool) -> dict[str, str]:
    """Nothing of the user's but where libraries lie, and how many threads compute: no keys, no home."""
    names = ("LD_LIBRARY_PATH", *(_THREADS if computes else ()))
    kept = {name: os.environ[name] for name in names if name in os.environ}
    kept |= {} if computes else {"OMP_NUM_THREADS": "1"}
    fixed = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    # torch 2.15 makes this folder as it is imported: one that is there already, where nothing can be written.
    fixed["TORCHINDUCTOR_CACHE_DIR"] = sys.prefix
    return {**kept, **fixed, "USER": "confined", "LOGNAME": "confined", "CUDA_VISIBLE_DEVICES": ""}
