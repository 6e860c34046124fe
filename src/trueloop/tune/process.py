"""A trial's process, its memory, and its end when it takes too long or too much. Every failure is a TrialFailed."""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, Any, Final, final

import torch

__all__ = ["PeakMemory", "Process", "TrialFailed", "TrialSpec", "resident_bytes"]

COMMAND: Final = ("-P", "-m", "trueloop.tune.trial")  # -P: a user's file must not shadow the standard library
LOOK: Final = 0.1  # Seconds between two checks of its memory
_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
RESET_PEAK: Final = "5"  # Makes Linux restart the peak of a process


def resident_bytes(status: Path = _STATUS, name: str = "VmRSS") -> int:
    """Of a process now (VmRSS) or at most (VmHWM); 0: it has ended, or this is not Linux."""
    try:
        text = status.read_text(encoding="utf-8")
    except OSError:
        return 0
    found = next((line for line in text.splitlines() if line.startswith(f"{name}:")), "")
    return int(found.split()[1]) * 1024 if found else 0


@final
class PeakMemory:
    """Created before the recipe is built: Python and torch are not counted."""

    def __init__(self) -> None:
        self.before = resident_bytes()

    def reset(self) -> None:
        """Excludes compiling and warm-up."""
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # then the peak includes the warm-up
            _CLEAR.write_text(RESET_PEAK, encoding="ascii")

    def peak(self) -> int:
        if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            return torch.cuda.max_memory_allocated()
        most = resident_bytes(name="VmHWM")
        if not most:
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return max(0, most - self.before)


@dataclass(frozen=True, slots=True)
class TrialSpec:
    word: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    download: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    reference: Mapping[str, Any] = field(default_factory=dict)  # Changes that make the recipe the reference
    log_every: int = 0  # Steps between two rows of metrics; 0: calibrate it
    fraction: float = 1.0  # Share of the CUDA device's memory that it may use


class TrialFailed(Exception):
    """Why a trial was not measured, in a sentence."""

    def __init__(self, reason: str, *, out_of_time: bool = False) -> None:
        super().__init__(reason)
        self.out_of_time = out_of_time


@final
class Process:
    """In its own session, so that its workers end with it."""

    def __init__(self, spec: TrialSpec, memory: int, command: tuple[str, ...] = COMMAND) -> None:
        self.memory = memory  # Bytes that it may use
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process is
        words, pipe = [sys.executable, *command], subprocess.PIPE
        self._child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True)
        self._heard = b""
        self.most = 0  # Largest observed memory, in bytes
        self.peak = 0  # Peak of its training in bytes, as it reports
        self.send(asdict(spec))

    def ask(self, order: dict[str, Any], until: float) -> dict[str, Any]:
        self.send(order)
        return self.listen(until)

    def send(self, message: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: `listen` reports how
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
            self._child.stdin.flush()

    def listen(self, until: float) -> dict[str, Any]:
        """Its next message. Raises TrialFailed after the deadline `until` (of `monotonic`)."""
        begun = monotonic()
        while (line := self._line()) is None:
            self._watch_memory()
            if self._child.poll() is not None:
                if (line := self._line()) is not None:
                    break
                raise TrialFailed(self._exit_message())
            if monotonic() > until:
                self.end()
                raise TrialFailed(f"not done after {monotonic() - begun:.0f} s, and no time was left", out_of_time=True)
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            self.end()
            raise TrialFailed(f"out of memory: {message['error']}" if message.get("memory") else str(message["error"]))
        return message

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
            room = f"only {self.memory / 1e9:.1f} GB are available for a trial"
            raise TrialFailed(f"out of memory at {taken / 1e9:.1f} GB: {room}")

    def _exit_message(self) -> str:
        code = self._child.wait()
        last = self._last_line()
        self.end()
        if code == -signal.SIGKILL:
            return f"killed, most likely because the machine ran out of memory; it used {self.most / 1e9:.1f} GB"
        if code < 0:
            return f"killed by {signal.Signals(-code).name}{f': {last}' if last else ''}"
        return f"exit code {code}{f': {last}' if last else ' without a message'}"

    def _last_line(self) -> str:
        errors: IO[bytes] = self._errors
        errors.seek(0)
        lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def end(self) -> None:
        """Kills it and its workers."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._errors):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
