"""All forms in turns, round by round, so that what else the machine does hits each of them; the order moves on with
each round."""

from __future__ import annotations

import json
import os
import platform
import select
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, final

from trueloop.bench.form import Asked
from trueloop.results.bench import Bench, Form, Pace

__all__ = ["ROUNDS", "SECONDS", "Elsewhere", "Holder", "HolderFailed", "bench", "machine"]

SECONDS: Final = 3.0
"""Of each form with each batch: some hundred calls of a small model, enough for a 99th percentile."""
ROUNDS: Final = 10
PATIENCE: Final = 900.0
"""Seconds after which a form hangs; compiling takes minutes."""
SPOKEN: Final = 600
"""Letters of what a process said before it ended that are handed on."""


class HolderFailed(Exception):
    """The form cannot be opened, or not be called with this batch."""


class Holder(ABC):
    """A form in a process of its own, or, in tests, none."""

    @abstractmethod
    def open(self) -> dict[str, Any]:
        """runtime, bytes, opened. Raises HolderFailed."""

    @abstractmethod
    def turn(self, batch: int, seconds: float) -> list[float]:
        """Seconds of each call. Raises HolderFailed."""

    def close(self) -> None:
        """It is not needed any more."""


@final
class Elsewhere(Holder):
    """`worker.py` in a process."""

    def __init__(self, asked: Asked, threads: int) -> None:
        self.asked = asked
        self.heard: IO[bytes] = tempfile.TemporaryFile(prefix="trueloop-bench-")  # noqa: SIM115 - closed with the process
        limits = (
            {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
            if threads
            else {}
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trueloop.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.heard,
            text=True,
            env={**os.environ, **limits},
        )

    def open(self) -> dict[str, Any]:
        return self._ask({"form": self.asked.plain()})

    def turn(self, batch: int, seconds: float) -> list[float]:
        times: list[float] = self._ask({"batch": batch, "seconds": seconds})["seconds"]
        return times

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise HolderFailed(self._ended()) from None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise HolderFailed(f"it has not answered for {PATIENCE / 60:.0f} minutes")
        line = self.process.stdout.readline()
        if not line:
            raise HolderFailed(self._ended())
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise HolderFailed(answer["failed"])
        return answer

    def _ended(self) -> str:
        code = self.process.wait()
        self.heard.seek(0)
        said = self.heard.read().decode("utf-8", "replace").strip()[-SPOKEN:]
        ended = f"signal {-code} ended it" if code < 0 else f"it ended with code {code}"
        return f"{ended}. {said}".strip()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.heard.close()


def bench(
    forms: Sequence[Asked],
    batches: Sequence[int],
    *,
    seconds: float = SECONDS,
    rounds: int = ROUNDS,
    threads: int = 0,
    holder: Callable[[Asked, int], Holder] = Elsewhere,
    say: Callable[[str], None] | None = None,
    notes: Sequence[str] = (),
) -> Bench:
    """A form that fails is told, and the others go on; all are on one device. `threads`: 0 for as many as each runtime
    takes by itself."""
    columns = []
    with ExitStack() as held:
        for asked in forms:
            process = holder(asked, threads)
            held.callback(process.close)
            columns.append(_Column(asked, process, say))
        for batch in batches:
            for number in range(rounds):
                turned = number % len(columns)
                for column in (*columns[turned:], *columns[:turned]):
                    column.turn(batch, seconds / rounds)
    here = machine(threads, forms[0].device)
    return Bench(tuple(column.form() for column in columns), tuple(batches), here, seconds, rounds, tuple(notes))


@final
class _Column:
    """One form, as far as it has come."""

    def __init__(self, asked: Asked, holder: Holder, say: Callable[[str], None] | None) -> None:
        self.asked, self.holder = asked, holder
        self.failed, self.told = "", dict[str, Any]()
        self.seconds: dict[int, list[float]] = {}
        self.refused: set[int] = set()
        """Batches that it cannot take; others it may."""
        if say is not None:
            say(f"opening {asked.name}")
        try:
            self.told = holder.open()
        except HolderFailed as failure:
            self.failed = str(failure)

    def turn(self, batch: int, seconds: float) -> None:
        if not self.told or batch in self.refused:
            return
        try:
            self.seconds.setdefault(batch, []).extend(self.holder.turn(batch, seconds))
        except HolderFailed as failure:
            self.seconds.pop(batch, None)
            self.refused.add(batch)
            self.failed = self.failed or f"batch {batch}: {failure}"

    def form(self) -> Form:
        paces = tuple(Pace.of(batch, times) for batch, times in self.seconds.items())
        told = self.told
        return Form(
            self.asked.name, told.get("runtime", ""), told.get("bytes", 0), paces, told.get("opened", 0.0), self.failed
        )


def machine(threads: int, device: str = "cpu") -> dict[str, Any]:
    """This one, in words, and where the forms run."""
    from trueloop import __version__
    from trueloop.export.device import shown
    from trueloop.export.exporter import installed

    packages = {name: installed(name) for name in ("torch", "onnxruntime", "executorch", "torchao", "numpy")}
    return {
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "threads": threads,
        "device": device if device == "cpu" else shown(device),
        "versions": {
            "trueloop": __version__,
            "python": platform.python_version(),
            **{n: v for n, v in packages.items() if v},
        },
    }


def _processor() -> str:
    """As the system calls it; Linux knows more than Python."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
