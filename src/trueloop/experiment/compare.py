"""Run a script without and with a change, each seed once, one process after another."""

import difflib
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trueloop.experiment.folder_copy import Snapshot
from trueloop.experiment.patch import Contents
from trueloop.results.experiment import Experiment, FindingSeen, ScriptRun
from trueloop.usercode.printed import printed_metrics

__all__ = ["Comparison"]

LOG_LINES: Final = 12  # of stderr, shown when a run fails
UNSEEDED: Final = "the script does not seed torch: the two runs differ also without the change; --seeds 3 measures it"
SEEDED: Final = (
    "0 to {last} was added to the seeds that the script gives to torch, numpy and random, in both versions; generators "
    "that it does not seed start from the same number"
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs without a change are made once, for all changes that are tried."""

    snapshot: Snapshot
    target: Sequence[str]  # the script, or -m MODULE, and its arguments
    seeds: int = 1
    steps: int | None = None
    say: Callable[[str], None] = lambda _: None
    _without: list[ScriptRun] = field(default_factory=list)

    def effect(self, change: Contents) -> Experiment:
        if not self._without:
            self._without.extend(self._side({}, "without the change"))
        with_it = self._side(change, "with the change")
        files = tuple(self._name(file) for file in change)
        script = self.target[1] if self.target[0] == "-m" else self.target[0]
        notes = self._notes([*self._without, *with_it], with_it, change)
        return Experiment(script, self._diff(change), files, tuple(self._without), tuple(with_it), notes)

    def _notes(self, runs: list[ScriptRun], with_it: list[ScriptRun], change: Contents) -> tuple[str, ...]:
        notes = [SEEDED.format(last=self.seeds - 1)] if self.seeds > 1 else []
        if not all(run.seeded for run in runs):
            notes.append(UNSEEDED)
        names = {str(file.relative_to(self.snapshot.home / "start")): self._name(file) for file in change}
        loaded = {file for run in with_it for file in run.loaded}
        unused = [shown for path, shown in names.items() if path.endswith(".py") and path not in loaded]
        if unused and not any(run.failure for run in with_it):
            notes.append(f"the script did not import {', '.join(unused)}: is an installed copy used instead?")
        return tuple(notes)

    # -- runs --

    def _side(self, change: Contents, label: str) -> list[ScriptRun]:
        runs = []
        for offset in range(self.seeds):
            seed = f", seed offset {offset}" if self.seeds > 1 else ""
            self.say(f"running {label}{seed}")
            with self.snapshot.fresh_copy(change) as copy:
                runs.append(self._run(copy, offset))
        return runs

    def _run(self, copy: Path, offset: int) -> ScriptRun:
        spec = {
            "working": self.snapshot.moved(str(self.snapshot.working), copy),
            "target": self.snapshot.command_in(copy, self.target),
            "steps": self.steps,
            "offset": offset if self.seeds > 1 else None,
            "record": str(copy / "record"),
            "result": str(copy / "result.json"),
            "files": str(copy / "files"),
        }
        (copy / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        (copy / "empty").mkdir()  # Python looks for modules in the folder it starts in: trueloop's are not the user's
        command = [sys.executable, "-m", "trueloop.experiment.worker", str(copy / "spec.json")]
        with (copy / "stdout").open("wb") as out, (copy / "stderr").open("wb") as err:
            ended = subprocess.run(
                command,
                cwd=copy / "empty",
                env=self._environment(copy, offset),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                check=False,
            )
        return _read(copy, offset, ended.returncode)

    def _environment(self, copy: Path, offset: int) -> dict[str, str]:
        known = self.snapshot.environment_in(copy)
        return {"PYTHONHASHSEED": str(offset), **known}

    # -- the change, shown --

    def _name(self, file: Path) -> str:
        name = os.path.relpath(self.snapshot.user_path(file), self.snapshot.working)
        return str(self.snapshot.user_path(file)) if name.startswith("..") else name

    def _diff(self, change: Contents) -> str:
        pieces: list[str] = []
        for file, text in change.items():
            before = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            name = self._name(file)
            pieces += difflib.unified_diff(before, (text or "").splitlines(), name, name, lineterm="")
        return "\n".join(pieces)


def _read(copy: Path, offset: int, code: int) -> ScriptRun:
    with (copy / "stderr").open(encoding="utf-8", errors="replace") as err:
        log = "".join(deque(err, LOG_LINES))
    result = copy / "result.json"
    if not result.is_file():
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ScriptRun(offset, 0, 0.0, f"the process ended by {ended}", log)
    seen: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    with (copy / "stdout").open(encoding="utf-8", errors="replace") as out:
        metrics = printed_metrics(out)
    numbers = {
        name: None if seen[name] is None else float(seen[name]) for name in ("first_loss", "last_loss", "gradient")
    }
    return ScriptRun(
        offset,
        seen["steps"],
        seen["seconds"],
        seen["failure"],
        log if seen["failure"] else "",
        **numbers,
        metrics=metrics,
        findings=tuple(FindingSeen(**each) for each in seen["findings"]),
        seeded=seen["seeded"],
        loaded=tuple(seen["loaded"]),
    )
