"""Measures all forms in turns, round by round, in rotating order: other load on the machine affects each of them."""

import json
import os
import platform
import select
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, final

from trueloop.bench.form import FormSpec
from trueloop.results.bench import Bench, Form, Pace
from trueloop.usercode.child_python import child_python

__all__ = ["ROUNDS", "SECONDS", "FormFailed", "FormHost", "WorkerProcess", "bench", "machine"]

SECONDS: Final = 3.0  # Per form and batch size: enough calls of a small model for a 99th percentile
ROUNDS: Final = 10
PATIENCE: Final = 900.0  # Timeout of a worker in seconds; compiling takes minutes
QUOTED: Final = 600  # Characters of a worker's error output that are quoted


class FormFailed(Exception):
    """The form cannot be opened, or not be called with this batch."""


class FormHost(ABC):
    """Opens and times one form; a fake in tests."""

    @abstractmethod
    def open(self) -> dict[str, Any]:
        """runtime, bytes, opened. Raises FormFailed."""

    @abstractmethod
    def turn(self, batch: int, seconds: float) -> list[float]:
        """The duration of each call. Raises FormFailed."""

    def close(self) -> None:
        """Called at the end."""


@final
class WorkerProcess(FormHost):
    """`worker.py` in a subprocess."""

    def __init__(self, spec: FormSpec, threads: int) -> None:
        self.spec = spec
        self.errors: IO[bytes] = tempfile.TemporaryFile(prefix="trueloop-bench-")  # noqa: SIM115 - see close
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS") if threads else ()
        self.process = subprocess.Popen(
            child_python("-m", "trueloop.bench.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **dict.fromkeys(names, str(threads))},
        )

    def open(self) -> dict[str, Any]:
        return self._ask({"form": self.spec.plain()})

    def turn(self, batch: int, seconds: float) -> list[float]:
        times: list[float] = self._ask({"batch": batch, "seconds": seconds})["seconds"]
        return times

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise FormFailed(self._exit_message()) from None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise FormFailed(f"no answer after {PATIENCE / 60:.0f} minutes")
        line = self.process.stdout.readline()
        if not line:
            raise FormFailed(self._exit_message())
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise FormFailed(answer["failed"])
        return answer

    def _exit_message(self) -> str:
        code = self.process.wait()
        self.errors.seek(0)
        errors = self.errors.read().decode("utf-8", "replace").strip()[-QUOTED:]
        return f"{f'killed by signal {-code}' if code < 0 else f'exit code {code}'}. {errors}".strip()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def bench(
    forms: Sequence[FormSpec],
    batches: Sequence[int],
    *,
    seconds: float = SECONDS,
    rounds: int = ROUNDS,
    threads: int = 0,
    host: Callable[[FormSpec, int], FormHost] = WorkerProcess,
    say: Callable[[str], None] = lambda _: None,
    notes: Sequence[str] = (),
) -> Bench:
    """A form that fails is reported; the others are still measured. `threads`: 0 for each runtime's default."""
    columns = []
    with ExitStack() as stack:
        for spec in forms:
            process = host(spec, threads)
            stack.callback(process.close)
            say(f"opening {spec.name}")
            columns.append(_Column(spec, process))
        for batch in batches:
            for number in range(rounds):
                first = number % len(columns)
                for column in (*columns[first:], *columns[:first]):
                    column.turn(batch, seconds / rounds)
    here = machine(threads, forms[0].device)
    return Bench(tuple(column.form() for column in columns), tuple(batches), here, seconds, rounds, tuple(notes))


@final
class _Column:
    """Measurements of one form."""

    def __init__(self, spec: FormSpec, host: FormHost) -> None:
        self.spec, self.host = spec, host
        self.failed, self.opened = "", dict[str, Any]()
        self.seconds: dict[int, list[float]] = {}
        self.refused: set[int] = set()  # Batch sizes that it does not accept
        try:
            self.opened = host.open()
        except FormFailed as failure:
            self.failed = str(failure)

    def turn(self, batch: int, seconds: float) -> None:
        if not self.opened or batch in self.refused:
            return
        try:
            self.seconds.setdefault(batch, []).extend(self.host.turn(batch, seconds))
        except FormFailed as failure:
            self.seconds.pop(batch, None)
            self.refused.add(batch)
            self.failed = self.failed or f"batch {batch}: {failure}"

    def form(self) -> Form:
        paces = tuple(Pace.of(batch, times) for batch, times in self.seconds.items())
        found = {"runtime": "", "bytes": 0, "opened": 0.0, **self.opened}
        return Form(self.spec.name, found["runtime"], found["bytes"], paces, found["opened"], self.failed)


def machine(threads: int, device: str = "cpu") -> dict[str, Any]:
    """This machine and the device, for the report."""
    from trueloop import __version__
    from trueloop.export.device import gpu_label
    from trueloop.export.exporter import installed_version

    packages = {name: installed_version(name) for name in ("torch", "onnxruntime", "executorch", "torchao", "numpy")}
    installed = {name: version for name, version in packages.items() if version}
    return {
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "threads": threads,
        "device": device if device == "cpu" else gpu_label(device),
        "versions": {"trueloop": __version__, "python": platform.python_version(), **installed},
    }


def _processor() -> str:
    """Linux knows more than `platform`."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
