"""A reader that leaves (`| head -1`, a closed terminal, a full disk) does not end a run of hours: what the run, its
recipe and its libraries print after that goes nowhere."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["lasting_output"]


@final
class _LastingFile(io.FileIO):
    """Writes until that fails once; then its descriptor leads to /dev/null, and the first process says so."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if self.fileno() == 1:
                why = error.strerror
                print(f"trueloop: stdout can no longer be written ({why}). The run continues.", file=sys.stderr)
            return memoryview(data).nbytes


@contextmanager
def lasting_output() -> Iterator[None]:
    """For the verbs that train. Streams that are not the process's own (a test's, a notebook's) stay as they are."""
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__:
        sys.stdout, sys.stderr = (_lasting(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _lasting(stream: TextIO) -> io.TextIOWrapper:
    stream.flush()
    raw = io.BufferedWriter(_LastingFile(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        raw, stream.encoding, stream.errors, line_buffering=True, write_through=stream is sys.stderr
    )
