"""A trial's process, seen from outside: started, told what to do, listened to; ended when it takes too long or too
much. Whatever becomes of it is a result: an exception of one kind, with a sentence.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import IO, Any, Final, final

from trueloop.tune.spec import Spec
from trueloop.tune.watermark import resident_bytes

__all__ = ["Process", "TrialFailed"]

COMMAND: Final = ("-P", "-m", "trueloop.tune.trial")
"""-P: a file of the user's that is called like one of Python's must not take its place."""
LOOK: Final = 0.1
"""Seconds between two looks at what a process takes while nothing is heard of it."""


class TrialFailed(Exception):
    """What became of a trial that was not measured, in a sentence."""

    def __init__(self, said: str, *, out_of_time: bool = False) -> None:
        super().__init__(said)
        self.out_of_time = out_of_time


@final
class Process:
    """In a session of its own: its workers go with it."""

    def __init__(self, spec: Spec, memory: int, command: tuple[str, ...] = COMMAND) -> None:
        self.memory = memory
        """Bytes that it may take of the machine."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process is
        self._child = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._heard = b""
        self.most = 0
        """Bytes that it was seen to take."""
        self.peak = 0
        """Bytes that its training takes at most, as it says itself."""
        self.tell(asdict(spec))

    def ask(self, order: dict[str, Any], until: float) -> dict[str, Any]:
        self.tell(order)
        return self.listen(until)

    def tell(self, words: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it is gone: `listen` says how
            self._child.stdin.write(json.dumps(words).encode() + b"\n")
            self._child.stdin.flush()

    def listen(self, until: float) -> dict[str, Any]:
        """Its next line. Raises TrialFailed if there is none by then, by the clock of `monotonic`."""
        begun = monotonic()
        while (line := self._line()) is None:
            self._watch_memory()
            if self._child.poll() is not None:
                if (line := self._line()) is not None:
                    break
                raise TrialFailed(self._how_it_ended())
            if monotonic() > until:
                self.end()
                raise TrialFailed(
                    f"not done after {monotonic() - begun:.0f} s, and no more time was left", out_of_time=True
                )
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            self.end()
            raise TrialFailed(f"out of memory: {said['error']}" if said.get("memory") else str(said["error"]))
        return said

    def _line(self) -> bytes | None:
        assert self._child.stdout is not None
        while b"\n" not in self._heard:
            if not select.select([self._child.stdout], [], [], LOOK if self._child.returncode is None else 0)[0]:
                return None
            read = os.read(self._child.stdout.fileno(), 1 << 16)
            if not read:
                return None
            self._heard += read
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _watch_memory(self) -> None:
        taken = resident_bytes(Path("/proc", str(self._child.pid), "status"))
        self.most = max(self.most, taken)
        if taken > self.memory:
            self.end()
            raise TrialFailed(
                f"out of memory at {taken / 1e9:.1f} GB: no more than {self.memory / 1e9:.1f} GB are free for a trial"
            )

    def _how_it_ended(self) -> str:
        code = self._child.wait()
        last = self._last_line()
        self.end()
        if code == -signal.SIGKILL:
            return f"killed, most likely because the machine ran out of memory; it took {self.most / 1e9:.1f} GB"
        if code < 0:
            return f"ended by {signal.Signals(-code).name}{f': {last}' if last else ''}"
        return f"ended with exit code {code}{f': {last}' if last else ' and without a word'}"

    def _last_line(self) -> str:
        errors: IO[bytes] = self._errors
        errors.seek(0)
        lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def end(self) -> None:
        """It and its workers are gone after this. It holds nothing that would need a farewell."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._errors):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
