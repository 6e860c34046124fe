"""The readiness note of a run: every question of every section, in the order of the note."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from trueloop.errors import NotARun
from trueloop.readiness import (
    checkpoints,
    contract,
    data,
    failure,
    findings,
    model,
    performance,
    reproducibility,
    risks,
    validation,
)
from trueloop.readiness.record import Record
from trueloop.readiness.statements import Run, answers, questions_in
from trueloop.results.readiness import Readiness
from trueloop.session.folder import read_about
from trueloop.session.runs import summary_of

__all__ = ["readiness_of"]

FILES: Final = (model, data, contract, validation, checkpoints, reproducibility, failure, performance, findings, risks)
FREE: Final = ("seed", "name")  # fields in which two runs of the same recipe may differ
FROM_PYTHON: Final = "RECIPE.py"  # for a recipe that was trained from Python: `trueloop train` takes a file


def readiness_of(folder: Path, claims: tuple[str, ...], baseline: Path | None = None) -> Readiness:
    """Of a run of `trueloop train`. Raises NotARun."""
    about = read_about(folder)
    before = baseline or _baseline_of(about) or _best_before(folder, about)
    twin = next(_twins(folder, about), None)
    run = Run(Record(folder), str(folder), _words(about), claims, _beside(before, folder), _beside(twin, folder))
    questions = [question for file in FILES for question in questions_in(vars(file))]
    return Readiness(str(folder), tuple(answers(questions, run)))


def _beside(other: Path | None, folder: Path) -> Record | None:
    return None if other is None else Record(other, f"{os.path.relpath(other, folder)}/")


# -- other runs --


def _baseline_of(about: dict[str, Any]) -> Path | None:
    """The baseline of the run, if it still exists."""
    baseline = about.get("baseline")
    path = Path(str(baseline.get("run", ""))) if isinstance(baseline, dict) else None
    return path if path is not None and (path / "run.json").is_file() else None


def _best_before(folder: Path, about: dict[str, Any]) -> Path | None:
    """The best run of a recipe of this name that finished before this one started."""
    good = []
    for path, theirs in _neighbors(folder):
        same = _recipe(theirs).get("name") == _recipe(about).get("name") and theirs.get("metric") == about.get("metric")
        if same and float(theirs.get("started") or 0) < float(about.get("started") or 0):
            good.append((float(theirs["best"]), path))
    if not good:
        return None
    return max(good)[1] if about.get("higher_is_better", True) else min(good)[1]


def _twins(folder: Path, about: dict[str, Any]) -> Iterator[Path]:
    def settings(run: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in _recipe(run).items() if name not in FREE}

    for path, theirs in _neighbors(folder):
        if settings(theirs) == settings(about) and _recipe(theirs).get("seed") != _recipe(about).get("seed"):
            yield path


def _neighbors(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Finished runs in the same folder, with a value to compare."""
    for path in sorted(folder.absolute().parent.iterdir()):
        if path == folder.absolute() or not (path / "run.json").is_file():
            continue
        try:
            about, summary = read_about(path), summary_of(path)
        except NotARun:
            continue  # `trueloop runs` reports damaged runs
        if summary.status == "finished" and about.get("best") is not None and not summary.collapse:
            yield (Path(os.path.relpath(path)) if not folder.is_absolute() else path), about


def _recipe(about: dict[str, Any]) -> dict[str, Any]:
    return about.get("recipe") or {}


def _words(about: dict[str, Any]) -> str:
    """What to type after `trueloop train` for the same recipe."""
    origin = about.get("origin")
    if not isinstance(origin, dict):
        return FROM_PYTHON
    arguments = origin.get("arguments") or {}
    words = [str(origin.get("recipe")), *([arguments["table"]] if "table" in arguments else [])]
    words += ["--target", arguments["target"]] if "target" in arguments else []
    words += [word for name, value in (origin.get("settings") or {}).items() for word in ("--set", f"{name}={value}")]
    words += ["--data", about["data"]] if about.get("data") else []
    return shlex.join(map(str, words))
