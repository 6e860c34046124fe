"""One run of `try`, in a process of its own: `python -m trueloop.experiment.worker SPEC`. Writes what it saw as JSON.

Nothing is changed in the script's run if `offset` is null. Otherwise the offset is added to every seed that the
script gives to torch, numpy or random, and generators that it never seeds start from the offset.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy
import torch

from trueloop.doctor.examine import examine
from trueloop.doctor.launch import find_module, find_script
from trueloop.doctor.traceback import exit_process, register_exit_handler, show
from trueloop.doctor.watch import Watch
from trueloop.event import GradientsMeasured, LossCurve
from trueloop.results.check import Verdict
from trueloop.results.plain import as_plain
from trueloop.run import read_events
from trueloop.usercode.settings import load_settings
from trueloop.usercode.source import set_base_folder

__all__ = ["main", "offset_seeds"]

LARGEST_SEED: Final = 2**32  # of numpy


def main() -> None:
    spec: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    os.chdir(spec["working"])
    set_base_folder(spec["working"])
    words: list[str] = spec["target"]
    program = find_module(words[1], words[2:]) if words[0] == "-m" else find_script(words[0], words[1:])
    record = Path(spec["record"])
    watch = Watch(
        settings=load_settings(Path(spec["working"])), last_step=spec["steps"], record=record, script=program.shown
    )
    if spec["offset"] is not None:
        offset_seeds(spec["offset"])
    seed = torch.initial_seed()
    register_exit_handler()
    verdict, error = examine(program, watch)
    seen = _seen(verdict, record)
    seen["seeded"] = spec["offset"] is not None or torch.initial_seed() != seed
    seen["loaded"] = _loaded(program.path, spec["files"])
    Path(spec["result"]).write_text(json.dumps(as_plain(seen)), encoding="utf-8")
    if error is not None:
        show(error)
    exit_process(error, verdict.outcome.exit_code)


def _seen(verdict: Verdict, record: Path) -> dict[str, Any]:
    outcome, learning = verdict.outcome, verdict.watched.learning
    failed = outcome.exception if outcome.reason in ("exception", "interrupted") else ""
    failed = failed or (f"exit code {outcome.exit_code}" if outcome.exit_code else "")
    norms, first = [], None
    for event in read_events(record):
        if isinstance(event, LossCurve) and event.first:
            first = event.first[0]
        elif isinstance(event, GradientsMeasured):
            norms.append(event.total)
    return {
        "steps": verdict.watched.steps,
        "seconds": verdict.watched.seconds,
        "failure": failed,
        "first_loss": first if learning is not None else None,
        "last_loss": None if learning is None else learning.last,
        "gradient": median(norms) if norms else None,
        "findings": [{"code": f.code, "name": f.name, "source": f.source.strip()} for f in verdict.findings],
    }


def _loaded(script: str, folder: str) -> list[str]:
    """Files of the user's that this process has run, relative to the copied folder."""
    files = {script, *(getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))}
    real, top = {os.path.realpath(file) for file in files if file}, os.path.realpath(folder)
    return sorted(os.path.relpath(file, top) for file in real if file.startswith(top + os.sep))


def offset_seeds(offset: int) -> None:
    """Shift the seeds that the script will set, and seed the generators that it may leave alone."""
    random.seed(offset)
    numpy.random.seed(offset)
    torch.manual_seed(offset)
    for owner, name in (
        (torch, "manual_seed"),
        (torch.random, "manual_seed"),
        (torch.cuda, "manual_seed"),
        (torch.cuda, "manual_seed_all"),
        (random, "seed"),
        (numpy.random, "seed"),
        (numpy.random, "default_rng"),
    ):
        setattr(owner, name, _shifted(getattr(owner, name), offset))


def _shifted(function: Callable[..., Any], offset: int) -> Callable[..., Any]:
    def seed(*arguments: Any, **named: Any) -> Any:
        key = next((key for key in ("seed", "a") if key in named), None)
        value = named[key] if key else arguments[0] if arguments else None
        if type(value) is int and value + offset < LARGEST_SEED:
            if key:
                named[key] = value + offset
            else:
                arguments = (value + offset, *arguments[1:])
        return function(*arguments, **named)

    return seed


if __name__ == "__main__":
    main()
