"""Runs the trials of a sweep: each in a process of its own, several at once, the cores divided among them."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, final

from trueloop.results.sweep import TrialResult
from trueloop.session.folder import RunFolder, read_about, running
from trueloop.sweep.halving import Halving
from trueloop.sweep.trial import HALVED, Trial

__all__ = ["Command", "TrialRunner"]

POLL: Final = 0.1  # Seconds between two looks at the processes
PR_SET_PDEATHSIG: Final = 1
FINDINGS: Final = 1  # Exit code of a run that finished with an error found by a rule


@dataclass(frozen=True, slots=True)
class Command:
    """The words of `trueloop train`, without those of a trial."""

    recipe: str
    words: Sequence[str]  # TABLE, --target, --data, --download
    runs: Path
    group: str

    def train(self, trial: Trial) -> list[str]:
        settings = [word for name, value in trial.settings.items() for word in ("--set", f"{name}={value}")]
        group = ["--group", self.group, "--varied", ",".join([*trial.values, "seed"])]
        return [
            "train",
            self.recipe,
            *self.words,
            *settings,
            "--name",
            trial.name,
            "--runs",
            str(self.runs),
            *group,
            "-q",
        ]

    def resume(self, trial: Trial) -> list[str]:
        return ["resume", str(trial.folder), *(["--download"] if "--download" in self.words else []), "-q"]


@dataclass
class _Process:
    trial: Trial
    popen: subprocess.Popen[bytes]
    log: IO[bytes]
    began: float = field(default_factory=time.monotonic)
    halved: bool = False
    signaled: bool = False

    def pass_on(self, number: int) -> None:
        """Once: a second signal would not let it save."""
        if not self.signaled:
            self.signaled = True
            self.popen.send_signal(number)

    def last_line(self) -> str:
        self.log.seek(0)
        lines = [line for line in self.log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return (
            lines[-1].strip().removeprefix("trueloop: ")
            if lines
            else f"the process ended with code {self.popen.returncode}"
        )


@final
class TrialRunner:
    """`run` returns a result per trial, also after Ctrl-C."""

    def __init__(self, command: Command, jobs: int, halving: Halving | None, say: Callable[[str], None]) -> None:
        self._command, self._jobs, self._halving, self._say = command, jobs, halving, say
        self._processes: list[_Process] = []
        self._results: dict[str, TrialResult] = {}
        self._hopeless: set[tuple[tuple[str, str], ...]] = set()  # Settings that --halving has ended
        self.signal = 0  # That ended the sweep

    def run(self, trials: Sequence[Trial]) -> dict[str, TrialResult]:
        waiting = deque(trials)
        self._total = len(trials)
        with self._signals():
            while (waiting and not self.signal) or self._processes:
                while waiting and not self.signal and len(self._processes) < self._jobs:
                    if not self._begin(waiting[0]):
                        break
                    waiting.popleft()
                self._look()
                if self._processes or waiting:
                    time.sleep(POLL)
        for trial in waiting:
            self._results[trial.name] = trial.result()
        return self._results

    def _begin(self, trial: Trial) -> bool:
        """Start it, unless nothing is left to do. False: another process trains it, ask again later."""
        todo = trial.todo()
        if todo == "wait":
            return False
        if todo == "nothing":
            self._end(trial, trial.result())
            return True
        if todo == "train" and tuple(trial.values.items()) in self._hopeless:
            self._results[trial.name] = TrialResult(trial.name, trial.seed, "halved")
            return True
        words = self._command.train(trial) if todo == "train" else self._command.resume(trial)
        log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        popen = subprocess.Popen(
            [sys.executable, "-m", "trueloop", *words],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process, which passes it on once
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        self._processes.append(_Process(trial, popen, log))
        return True

    def _environment(self) -> Mapping[str, str]:
        share = max(1, (len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1) // self._jobs)
        return {"OMP_NUM_THREADS": str(share), **os.environ}

    def _look(self) -> None:
        for process in list(self._processes):
            if process.popen.poll() is not None:
                self._processes.remove(process)
                self._ended(process)
            elif self.signal:
                process.pass_on(self.signal)
            elif self._halving is not None and not process.halved:
                seen = process.trial.validation()
                if seen.values and self._halving.is_hopeless(
                    process.trial.name, seen.values, higher_is_better=seen.higher_is_better
                ):
                    process.halved = True
                    process.popen.terminate()

    def _ended(self, process: _Process) -> None:
        trial = process.trial
        if process.halved and not running(trial.folder) and read_about(trial.folder).get("status") == "signal":
            folder = RunFolder.open(trial.folder)
            folder.write(**{HALVED: len(trial.validation().values)})
            folder.close()
        failed = process.popen.returncode not in (0, FINDINGS) and not self.signal and not process.halved
        begun = (trial.folder / "run.json").is_file()
        log = process.last_line() if failed or (not begun and not self.signal) else ""
        result = trial.result(log, found=process.popen.returncode == FINDINGS)
        if result.state == "unfinished" and not self.signal:
            code = process.popen.returncode
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            result = replace(result, message=f"ended by {ended}: the same command continues it")
        process.log.close()
        self._end(trial, result, time.monotonic() - process.began)

    def _end(self, trial: Trial, result: TrialResult, seconds: float | None = None) -> None:
        self._results[trial.name] = result
        if result.state == "halved":
            self._hopeless.add(tuple(trial.values.items()))
        seen = trial.validation()
        if self._halving is not None and result.state != "unfinished":
            halved = result.state == "halved"
            self._halving.end(trial.name, seen.values, higher_is_better=seen.higher_is_better, halved=halved)
        value = f"{seen.metric} {result.value:.4g}" if result.value is not None else ""
        how = "kept" if seconds is None else f"{seconds:,.0f} s"
        said = ", ".join(word for word in (result.state, value, result.message, how) if word)
        self._say(f"[{len(self._results)}/{self._total}] {trial.name}: {said}")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM go to the trials, which save; this process waits for them."""

        def pass_on(number: int, _: Any) -> None:
            self.signal = self.signal or number  # the processes get it at the next look

        before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for process in self._processes:  # only if this process failed
                process.popen.terminate()


def _end_with_parent() -> None:
    """In the child: if the sweep is killed, its trials save and end too. Elsewhere than on Linux they train on."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
