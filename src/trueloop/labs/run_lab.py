"""Run a lab: measure, and compare its answer with the measurement."""

import platform
import shutil
import time
import traceback
import warnings
from dataclasses import replace
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

from trueloop import __version__
from trueloop.labs.attempt import check_attempt
from trueloop.labs.catalogue import about, entry_named, lab_named
from trueloop.labs.lab import Exercise, Lab, NotHere, Page
from trueloop.results.lab import ExerciseCheck, LabRun
from trueloop.results.plain import as_plain

__all__ = ["check_exercise", "run_lab", "run_one_of_many"]


def _versions() -> dict[str, str]:
    return {"trueloop": __version__, "torch": torch.__version__, "python": platform.python_version()}


def missing(need: str) -> str:
    """A sentence; empty: it is here."""
    kind, _, name = need.partition(" ")
    match kind:
        case "gpu":
            return "" if torch.cuda.is_available() else "This lab needs a GPU with CUDA, and there is none here."
        case "package":
            return "" if find_spec(name) else f"This lab needs the package {name}, which is not installed."
        case "program":
            return "" if shutil.which(name) else f"This lab needs the program {name}, which is not installed."
        case _:
            return ""


def run_lab(name: str) -> LabRun:
    """Errors of the lab itself pass through; `NotHere` does not."""
    entry, lab = entry_named(name), lab_named(name)
    run = LabRun(
        name, entry.question, about(name), lab.source(), exercise=lab.exercise is not None, versions=_versions()
    )
    if absent := missing(lab.needs):
        return replace(run, not_here=absent)
    began = time.perf_counter()
    try:
        page, measured = _measured(lab)
    except NotHere as error:
        return replace(run, not_here=str(error))
    return replace(
        run, shown=tuple(page.parts), sentences=tuple(page.sentences), measured=measured,
        seconds=time.perf_counter() - began,
    )  # fmt: skip


def _measured(lab: Lab[Any]) -> tuple[Page, dict[str, Any]]:
    """A lab neither sees nor leaves settings of the labs before it."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(), warnings.catch_warnings():
        torch.manual_seed(0)
        try:
            numbers = lab.measure()
        finally:
            torch.set_num_threads(threads)
    page = Page()
    lab.answer(page, numbers)
    plain = as_plain(numbers)
    return page, plain if isinstance(plain, dict) else {"measured": plain}


def run_one_of_many(name: str) -> LabRun:
    """As one of many: an error is part of the result."""
    try:
        return run_lab(name)
    except Exception:  # noqa: BLE001 - the other labs still run; the traceback is in the report
        return LabRun(name, entry_named(name).question, "", "", error=traceback.format_exc())


def check_exercise(name: str, exercise: Exercise, module: ModuleType, file: str) -> ExerciseCheck:
    return ExerciseCheck(name, file, check_attempt(exercise.check, module), _versions())
