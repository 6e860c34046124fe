"""What claims are tried on: a recipe, whose parts are all at hand, or a script, which can only be run and watched.

Whatever a proof trains or writes lies in `scratch`, a folder of its own that is removed afterwards: the user's runs are
left alone.
"""

from __future__ import annotations

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
from trueloop.event import Event
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.run import read_events

__all__ = ["CheckedRun", "RecipeSubject", "ScriptSubject", "python"]

E = TypeVar("E", bound=Event)


@final
class RecipeSubject:
    """A recipe; without its trackers and hooks, to whom a proof is no run."""

    def __init__(self, recipe: Recipe, request: DataRequest, words: tuple[str, ...], scratch: Path) -> None:
        self.recipe = replace(recipe, trackers=(), hooks=())
        self.request = request
        self.words = words
        """What to type after `trueloop train` for this recipe: ('digits', '--set', 'lr=0.1')."""
        self.scratch = scratch

    @cached_property
    def splits(self) -> Splits:
        """Read once for all claims: a source gives the same samples each time it is asked."""
        splits: Splits = self.recipe.data(self.request)
        return splits

    def parts(self, **changes: Any) -> Parts:
        """A fresh loop of the recipe, at its beginning, seeded as a run is; `changes`: other values for fields of the
        recipe."""
        if changes.get("compile") == "off":  # asked for by those who look into a step, or take it themselves
            changes = {"program": "eager"} | changes
        return assemble(replace(self.recipe, data=lambda _: self.splits, **changes), self.request)

    def batch(self, parts: Parts) -> Batch:
        """The first batch that a run trains on, whole, on the loop's device, prepared and augmented as there."""
        batch = parts.batches.batch_at(0, 0)
        assert batch is not None, "a single process has a part in every batch"
        return batch


@dataclass(frozen=True)
class CheckedRun:
    """What `trueloop check --record` left of a run."""

    events: tuple[Event, ...]
    report: Mapping[str, Any]
    """The JSON report."""
    exit_code: int
    """Of the script itself."""
    said: str
    """The end of what it wrote to stderr."""

    def of(self, kind: type[E]) -> tuple[E, ...]:
        return tuple(event for event in self.events if isinstance(event, kind))

    def findings(self, *codes: str) -> list[Mapping[str, Any]]:
        return [finding for finding in self.report["findings"] if finding["code"] in codes]


@final
class ScriptSubject:
    """Somebody's script, unmodified. It is run in processes of its own: each claim meets it fresh."""

    def __init__(self, command: tuple[str, ...], steps: int | None, scratch: Path) -> None:
        self.command = command
        """SCRIPT or -m MODULE, and its own arguments."""
        self.steps = steps
        """Optimizer steps after which a run of it is ended; None: at its own end."""
        self.scratch = scratch

    @cached_property
    def checked(self) -> CheckedRun:
        """One run under all rules: most claims can be read off it."""
        folder, report = self.scratch / "checked", self.scratch / "report.json"
        options = ["--record", str(folder), "--format", "json", "--output", str(report), "--fail-on", "never"]
        done = python("-m", "trueloop", "check", *options, *self.limit, *self.command)
        if not report.is_file():
            return CheckedRun((), {"findings": [], "script": {}}, done.returncode or 1, done.stderr[-2000:])
        said = json.loads(report.read_text(encoding="utf-8"))
        return CheckedRun(tuple(read_events(folder)), said, int(said["script"]["exit_code"]), done.stderr[-2000:])

    @property
    def limit(self) -> tuple[str, ...]:
        return () if self.steps is None else ("--steps", str(self.steps))


def python(*words: str, timeout: float | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """A child by this very Python. Its output is kept from the user's terminal."""
    return _started(words, {**os.environ, **environment}, timeout)


def _started(
    words: tuple[str, ...], environment: dict[str, str], timeout: float | None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, errors="replace", timeout=timeout, env=environment
    )
