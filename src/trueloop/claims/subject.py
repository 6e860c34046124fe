"""What claims are tested on: a recipe, whose parts are all accessible, or a script, which can only be run and observed.

Everything that a test trains or writes is in `scratch`, a temporary folder, or in a copy of the script's folder: the
user's files are not touched.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, final

from trueloop.data.source import Batch, Splits
from trueloop.engine.assemble import assemble
from trueloop.engine.parts import Parts
from trueloop.engine.read_data import read_data
from trueloop.event import Event, Place
from trueloop.experiment.folder_copy import Snapshot
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.run import read_events
from trueloop.usercode.ownership import class_place

__all__ = ["CheckedRun", "RecipeSubject", "ScriptSubject", "dataset_place", "function_place", "last_line", "run_python"]

E = TypeVar("E", bound=Event)


@final
class RecipeSubject:
    """A recipe, without its trackers and hooks."""

    def __init__(self, recipe: Recipe, request: DataRequest, words: tuple[str, ...], scratch: Path) -> None:
        self.recipe = replace(recipe, trackers=(), hooks=())
        self.request = request
        self.words = words  # what to type after `trueloop train` for this recipe: ('digits', '--set', 'lr=0.1')
        self.scratch = scratch

    @cached_property
    def splits(self) -> Splits:
        """Read once for all claims: a source gives the same samples each time."""
        return read_data(self.recipe, self.request)

    def parts(self, **changes: Any) -> Parts:
        """The parts of a new training, seeded like a run, with `changes` to the recipe's fields."""
        if changes.get("compile") == "off":  # claims that look into a step, or take it themselves
            changes = {"program": "eager"} | changes
        return assemble(replace(self.recipe, data=lambda _: self.splits, **changes), self.request)

    def batch(self, parts: Parts) -> Batch:
        """The complete first training batch, on its device, prepared and augmented."""
        return parts.batches.again(0, 0)


@dataclass(frozen=True)
class CheckedRun:
    """The result of `trueloop check --record`."""

    events: tuple[Event, ...]
    report: Mapping[str, Any]  # the JSON report
    exit_code: int  # of the script itself
    stderr: str  # the end of it

    def of(self, kind: type[E]) -> tuple[E, ...]:
        return tuple(event for event in self.events if isinstance(event, kind))

    def findings(self, *codes: str) -> list[Mapping[str, Any]]:
        return [finding for finding in self.report["findings"] if finding["code"] in codes]


@final
class ScriptSubject:
    """A user's script, unmodified. Each run is a new process in a copy of its folder, as it was at the beginning."""

    def __init__(self, command: tuple[str, ...], steps: int | None, scratch: Path, folder: Snapshot) -> None:
        self.command = command  # SCRIPT or -m MODULE, and its own arguments
        self.steps = steps  # optimizer steps after which a run is stopped; None: at its own end
        self.scratch = scratch
        self.folder = folder

    @cached_property
    def checked(self) -> CheckedRun:
        """One run under all rules; most claims read their answer from it."""
        out = self.scratch / "checked"
        record, file = out / "record", out / "report.json"
        out.mkdir(parents=True, exist_ok=True)
        options = ("check", "--record", str(record), "--format", "json", "--output", str(file), "--fail-on", "never")
        limit = () if self.steps is None else ("--steps", str(self.steps))
        done = self.run(out, "trueloop", *options, *limit)
        if not file.is_file():
            return CheckedRun((), {"findings": [], "script": {}}, done.returncode or 1, done.stderr[-2000:])
        report = json.loads(file.read_text(encoding="utf-8"))
        return CheckedRun(tuple(read_events(record)), report, int(report["script"]["exit_code"]), done.stderr[-2000:])

    def run(
        self, out: Path, module: str, *options: str, copy: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`python -m MODULE OPTIONS SCRIPT ...` in a fresh copy, or in this one. Its results, in the file or folder
        `out` and on stderr, show the user's own paths."""
        if copy is None:
            with self.folder.fresh_copy() as fresh:
                return self.run(out, module, *options, copy=fresh, **environment)
        command = self.folder.command_in(copy, self.command)
        working = Path(self.folder.moved(str(self.folder.working), copy))
        done = _run(("-m", module, *options, *command), {**self.folder.environment_in(copy), **environment}, working)
        for file in sorted(out.rglob("*.json*")) if out.is_dir() else [out] if out.is_file() else []:
            text = file.read_text(encoding="utf-8")
            file.write_text(self.folder.with_user_paths(text, copy), encoding="utf-8")
        done.stderr = self.folder.with_user_paths(done.stderr, copy)
        return done


def run_python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A child process of this Python; its output is captured."""
    return _run(words, {**os.environ, **environment}, None)


def _run(words: tuple[str, ...], environment: dict[str, str], folder: Path | None) -> subprocess.CompletedProcess[str]:
    """Replaced in the tests. The folder: None: this one."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, cwd=folder)


def last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "")


def dataset_place(splits: Splits) -> Place | None:
    """Where the class of the training data is defined."""
    return class_place(type(getattr(splits.train, "samples", splits.train)))


def function_place(function: object) -> Place | None:
    """Where a function is defined; None: not a Python function."""
    code = getattr(function, "__code__", None)
    return None if code is None else Place(code.co_filename, code.co_firstlineno, code.co_qualname)
