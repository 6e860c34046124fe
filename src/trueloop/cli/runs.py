"""`trueloop runs [FOLDER]`: a table of runs. No torch is loaded."""

from __future__ import annotations

import json
import math
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

from trueloop.cli.options import Parser
from trueloop.errors import Misuse, did_you_mean
from trueloop.report.units import duration, number
from trueloop.session.runs import RunSummary, by_metric, read_runs, summary_of

__all__ = ["plain", "runs", "table"]


def runs(arguments: list[str]) -> int:
    parser = Parser("runs", "[options] [FOLDER]", "List runs, the newest first: metric, steps, time, status.")
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="FOLDER", help="the folder of runs (default: runs), or one run"
    )
    parser.add_argument("--sort", metavar="BY", default="time", help="time (default) | metric: the best first")
    parser.add_argument("--format", metavar="NAME", default="text", help="text (default) | json")
    asked = parser.parse_all(arguments)
    for option, word, known in (
        ("--sort", asked.sort, ("time", "metric")),
        ("--format", asked.format, ("text", "json")),
    ):
        if word not in known:
            raise Misuse(f"{option} cannot be {word!r}.{did_you_mean(word, known)} There are: {', '.join(known)}.")
    folder: Path = asked.folder or Path("runs")
    if not folder.is_dir() and asked.folder is not None:
        raise Misuse(f"There is no folder {folder}. Runs lie in ./runs unless `trueloop train` was told --runs FOLDER.")
    found = _found(folder)
    if asked.sort == "metric":
        found = by_metric(found)
    if asked.format == "json":
        print(json.dumps([_listed(run) for run in found], indent=2))
    elif found:
        print("\n".join([*table(_cells(found)), *_troubles(found)]))
    else:
        print(f"There are no runs in {folder}. `trueloop train digits` makes one.")
    return 0


def _found(folder: Path) -> list[RunSummary]:
    if (folder / "run.json").is_file():
        return [summary_of(folder)]
    return read_runs(folder) if folder.is_dir() else []


def _cells(found: list[RunSummary]) -> list[list[str]]:
    heads = ["run", "recipe", "best", "test", "steps", "time", "started", "status"]
    return [heads, *(_row(run) for run in found)]


def _row(run: RunSummary) -> list[str]:
    test = (run.test or {}).get(run.metric)
    total = f"/{run.total_steps:,}" if run.total_steps and run.step != run.total_steps else ""
    return [
        run.name,
        run.recipe,
        f"{run.metric} {number(run.best)}" if run.best is not None else "",
        number(test) if test is not None else "",
        f"{run.step:,}{total}",
        duration(run.seconds) if run.seconds is not None else "",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)),
        run.status,
    ]


def _troubles(found: list[RunSummary]) -> list[str]:
    """What to do about the runs that did not finish: one line each."""
    said = []
    for run in found:
        if run.status in ("failed", "damaged", "collapsed", "hung"):
            said.append(f"{run.name}: {run.message or 'it ended with an error'}")
        elif run.collapse:
            said.append(f"{run.name}: marked. {run.collapse}")
        elif run.status in ("stopped", "killed"):
            said.append(f"{run.name}: go on with `trueloop resume {run.path}`")
    return ["", *said] if said else []


def table(rows: list[list[str]]) -> list[str]:
    """Columns under one another, two spaces between them; no spaces at the ends of lines."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _listed(run: RunSummary) -> dict[str, Any]:
    return {"name": run.name, **{each.name: plain(getattr(run, each.name)) for each in fields(run)}}


def plain(value: Any) -> Any:
    """As strict JSON has it: paths and numbers like nan as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
