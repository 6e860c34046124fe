"""A stranger's file that stays open in a confined process of its own, and answers questions:

    session = Session("package.module:function", file.fileno(), limits, seconds=300.0, name="x")
    session.ask([b"what", b"then"], seconds=300.0)     # bytes, as untrusted as the file
    session.close()

The function is called there with the file, an output, `questions` and the options; it answers with `conversation`.
Each message is its length in 8 bytes, then the message. An answer begins with `+`, or with `-` before an error, in 16
bytes.
"""

import fcntl
import math
import os
import select
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final, final

from trueloop.trust.confine.client import Refused, Worker, failure_of, how_it_ended, order
from trueloop.trust.confine.limits import Limits
from trueloop.trust.confine.worker import failure

__all__ = ["MOST", "Session", "conversation"]

MOST: Final = 1 << 30  # Bytes of an answer
ERROR: Final = 1 << 16  # Bytes of an error
AT_ONCE: Final = 1 << 20  # Bytes that a pipe holds, where the system allows it: fewer changes of processes
ENDING: Final = 10.0  # Seconds that a process which closed its pipe may take to end
_LENGTH: Final = struct.Struct("<Q")
_GOOD, _BAD = b"+".ljust(16), b"-".ljust(16)  # What follows is aligned
Bytes = bytes | bytearray | memoryview


@final
class Session:
    """`ended`: there is no process any more. Questions of several threads are asked one after the other."""

    def __init__(self, reader: str, given: int, limits: Limits, seconds: float, **options: Any) -> None:
        """`given`: the number of an open file. `seconds`: to open it. Raises Refused."""
        self.limits, self.ended = Limits(limits.memory, math.inf), False
        module, message = order(reader, self.limits, options)
        self._lock, self._worker = threading.Lock(), Worker(module, computes=True)
        (theirs, self._asking), (self._answers, answering) = os.pipe(), os.pipe()
        ours = (self._asking, self._answers)
        self._close = weakref.finalize(self, _close, self._worker, ours, os.getpid())
        for handle in ours:
            os.set_blocking(handle, False)
            with suppress(OSError):  # more than this user may have
                fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, AT_ONCE)
        try:
            with suppress(OSError):  # the worker has ended: there will be no answer
                self._worker.hand_over(message, [given, answering, theirs])
        finally:
            os.close(answering)
            os.close(theirs)
        try:
            self._open(seconds)
        except Refused:
            self.close()
            raise

    def _open(self, seconds: float) -> None:
        with self._until(seconds) as until:
            if self._read(1, until) == b"+":
                self._answer(until)
                return
            error = bytearray()
            with suppress(_Lost):
                while len(error) < ERROR:
                    error += self._read(1, until)
            raise failure_of(bytes(error), self.limits, "it")

    def ask(self, parts: Sequence[Bytes], seconds: float) -> memoryview:
        """Raises Refused: an error of the reader, which still answers, or Limit or Crash, which is its end."""
        with self._lock, self._until(seconds) as until:
            for part in (_LENGTH.pack(sum(len(each) for each in parts)), *parts):
                self._write(memoryview(part), until)
            return self._answer(until)

    def close(self) -> None:
        self.ended = True
        self._close()

    @contextmanager
    def _until(self, seconds: float) -> Iterator[float]:
        """The time by which it must be done."""
        if self.ended:
            raise Refused("Crash", "its confined process has ended")
        try:
            yield time.monotonic() + seconds
        except _Lost as lost:
            how = str(lost) or self._how_it_ended()
            self.close()
            raise Refused("Crash", f"its confined process {how}") from None
        except TimeoutError:
            self.close()
            raise Refused("Limit", f"its confined process did not answer within {seconds:g} s") from None

    def _how_it_ended(self) -> str:
        try:
            return how_it_ended(self._worker.signal_of_child(ENDING))
        except (OSError, ValueError):
            return "ended"

    def _answer(self, until: float) -> memoryview:
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size, until))
        if not len(_GOOD) <= size <= MOST:
            raise _Lost(f"gave an answer of {size:,} bytes; at most {MOST:,} are allowed")
        answer = memoryview(self._read(size, until))
        if answer[: len(_GOOD)] == _GOOD:
            return answer[len(_GOOD) :]
        raise failure_of(bytes(answer[len(_BAD) : ERROR]), self.limits, "it")

    def _read(self, size: int, until: float) -> bytearray:
        """Grows with what arrives: the size was only claimed."""
        read = bytearray()
        while len(read) < size:
            try:
                part = os.read(self._answers, min(AT_ONCE, size - len(read)))
            except BlockingIOError:
                _wait(self._answers, select.POLLIN, until)
                continue
            if not part:
                raise _Lost
            read += part
        return read

    def _write(self, part: memoryview, until: float) -> None:
        while part:
            try:
                part = part[os.write(self._asking, part[:AT_ONCE]) :]
            except BlockingIOError:
                _wait(self._asking, select.POLLOUT, until)
            except BrokenPipeError:
                raise _Lost from None


class _Lost(Exception):
    """It will not answer any more. The text: why, if it still runs."""


def _wait(handle: int, what: int, until: float) -> None:
    poll = select.poll()  # select has no place for the numbers of a server with many connections
    poll.register(handle, what)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1e3):
        raise TimeoutError


def _close(worker: Worker, handles: Sequence[int], process: int) -> None:
    if os.getpid() != process:  # a forked child must not end its parent's
        return
    for handle in handles:
        os.close(handle)
    worker.close()


# -- in the confined process --


def conversation(questions: BinaryIO, out: Any, answer: Callable[[memoryview], Sequence[Bytes]]) -> None:
    """Says that the file is open, then answers each question, until there are no more. `out`: of the reader."""
    _send(out, [_GOOD])
    while length := questions.read(_LENGTH.size):
        asked = bytearray(*_LENGTH.unpack(length))  # which can be written: torch takes no other
        questions.readinto(asked)  # type: ignore[attr-defined]
        try:
            parts: Sequence[Bytes] = [_GOOD, *answer(memoryview(asked))]
        except Exception as error:  # noqa: BLE001 - whatever a malformed file makes a runtime raise is the answer
            parts = [_BAD, failure(error)]
        _send(out, parts)


def _send(out: Any, parts: Sequence[Bytes]) -> None:
    for part in (_LENGTH.pack(sum(len(each) for each in parts)), *parts):
        out.write(part)
    out.flush()
