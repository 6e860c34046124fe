"""The run folder of a checked script: what `trueloop check` and `trueloop.watch()` leave behind.

runs/NAME/run.json            kind "check"; script, arguments, git commit, machine, status, steps, exit code
          metrics.jsonl       rows as in a run of `trueloop train`: see track/thin_metrics.py
          report.json         the findings, as `trueloop check --format json` prints them; rewritten with each new one
          console.log         the end of what the script printed: see track/console_file.py
          step_program.json   what a sampled step computed: see track/step_program_file.py
          lock                held while the script runs

Nothing here may end or slow the script: what cannot be written is reported in one sentence at the end.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, final

from trueloop.doctor.run_record import RunRecord
from trueloop.errors import CannotSave
from trueloop.event import Event
from trueloop.finding import Severity
from trueloop.hook import Row
from trueloop.report.json import render
from trueloop.results.check import Outcome, Verdict
from trueloop.session.folder import RunFolder
from trueloop.session.git_state import git_state
from trueloop.session.machine import machine
from trueloop.track.console_file import copy_output
from trueloop.track.step_program_file import KINDS, StepProgramFile
from trueloop.track.thin_metrics import ThinMetrics

__all__ = ["CheckRun", "name_of_script", "say"]

REPORT: Final = "report.json"
STATUS: Final = {"finished": "finished", "cut": "finished", "interrupted": "signal", "hung": "hung"}
"""How the script ended -> `status` of run.json; everything else by its exit code."""


def name_of_script(script: str) -> str:
    """The name of its run: `train` for path/train.py; that of the package for package/__main__.py."""
    path = Path(script)
    stem = path.parent.name if path.stem == "__main__" else path.stem
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "script"


@final
class CheckRun(RunRecord):
    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder.path.absolute()  # the script may change its working directory
        self.shown = str(folder.path)
        folder.path = self.folder
        self._run = folder
        self._pid = os.getpid()
        self._metrics = ThinMetrics(self.folder)
        self._program = StepProgramFile(self.folder)
        self._verdict: Callable[[], Verdict] | None = None  # of findings that are not on disk yet
        self._concluded = False
        self._failure = ""

    @classmethod
    def create(
        cls, runs: Path, name: str, script: str, arguments: Sequence[str], *, named: bool
    ) -> tuple[Self | None, str]:
        """(run, sentence): None, and why, if it cannot be written. Raises Misuse for a name that is taken."""
        about: dict[str, Any] = {"kind": "check", "script": script, "arguments": list(arguments)}
        file = Path(script)
        about["path"] = str(file.absolute())
        about["git"] = git_state(file.absolute().parent if file.is_file() else Path.cwd())
        about["machine"] = machine()
        try:
            return cls(RunFolder.create(runs, name, about, named=named)), ""
        except CannotSave as error:
            why = str(error).partition(". Nothing was run")[0].rstrip(".")
            return None, f"{why}. The script is checked all the same, without a run folder."

    # -- while it runs --

    @contextmanager
    def console(self) -> Iterator[None]:
        """What the script prints is kept too."""
        with copy_output(self.folder, sys.stdout, sys.stderr) as copy:
            yield
        self._failure = self._failure or copy.failure

    def add_rows(self, rows: list[Row]) -> None:
        if os.getpid() != self._pid:
            return
        self._metrics.add(rows)
        self._try(self._program.write)
        verdict, self._verdict = self._verdict, None
        if verdict is not None:
            self._try(lambda: self._write_report(verdict()))

    def hear(self, event: Event) -> None:
        if type(event) in KINDS:
            self._program.hear(event)

    def found_something(self, verdict: Callable[[], Verdict]) -> None:
        self._verdict = verdict

    # -- at its end --

    def conclude(self, verdict: Verdict, exit_code: int) -> None:
        if self._concluded or os.getpid() != self._pid:
            return
        self._concluded = True
        self._metrics.close()
        self._try(self._program.write)
        self._try(lambda: self._write_report(verdict))
        found = {
            severity.word: count
            for severity in sorted(Severity, reverse=True)
            if (count := sum(finding.severity is severity for finding in verdict.findings))
        }
        try:
            self._run.write(
                status=_status(verdict.outcome),
                reason=verdict.outcome.reason,
                step=verdict.watched.steps,
                exit_code=exit_code,
                message=verdict.outcome.sentence(),
                findings=found,
                models=list(verdict.watched.models),
                ended=time.time(),
            )
        except CannotSave as error:
            self._failure = self._failure or str(error).rstrip(".")
        self._run.close()

    def failure(self) -> str:
        """What could not be written, in a sentence; empty: nothing."""
        reason = self._failure or self._metrics.failure
        return f"the run folder {self.shown} is incomplete ({reason})" if reason else ""

    def _write_report(self, verdict: Verdict) -> None:
        aside = self.folder / f"{REPORT}.writing"
        aside.write_text(render(verdict), encoding="utf-8", errors="backslashreplace")
        aside.replace(self.folder / REPORT)

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._failure = self._failure or str(error.strerror or error)
            with suppress(OSError):
                (self.folder / f"{REPORT}.writing").unlink(missing_ok=True)


def _status(outcome: Outcome) -> str:
    return STATUS.get(outcome.reason) or ("failed" if outcome.exit_code else "finished")


def say(text: str) -> None:
    """To stderr: stdout is the script's."""
    sys.stderr.write(f"trueloop: {text}\n")
    sys.stderr.flush()
