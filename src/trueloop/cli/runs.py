"""`trueloop runs [FOLDER]`: a table of runs. No torch is imported."""

import json
import shlex
from pathlib import Path

from trueloop.cli.deliver import Delivery
from trueloop.cli.named_run import path_of_run
from trueloop.cli.options import Parser, one_of
from trueloop.cli.runs_table import runs_table
from trueloop.errors import Misuse, did_you_mean
from trueloop.results.document import Column, Document, Table, Text
from trueloop.results.plain import as_plain
from trueloop.session.runs import RunSummary, by_metric, read_runs, summary_of

__all__ = ["parser", "runs", "table"]


def parser() -> Parser:
    made = Parser(
        "runs", "[options] [FOLDER]", "List runs, the newest first: settings that differ, metric, steps, time, status."
    )
    add = made.add_argument
    add("folder", nargs="?", type=Path, metavar="FOLDER", help="the folder of runs (default: runs), or one run")
    add("--sort", metavar="BY", type=one_of(("time", "metric")), default="time", help="time (default) | metric")
    add("--group", metavar="NAME", help="only the runs of this group, such as a sweep")
    made.add_report_options(quiet="")
    return made


def runs(arguments: list[str]) -> int:
    options = parser().parse_all(arguments)
    folder: Path = path_of_run(options.folder) if options.folder else Path("runs")
    if not folder.is_dir() and options.folder is not None:
        raise Misuse(f"There is no folder {folder}. Runs are in ./runs, unless `trueloop train` got --runs FOLDER.")
    found = _found(folder)
    if options.group is not None:
        groups = sorted({run.group for run in found if run.group})
        found = [run for run in found if run.group == options.group]
        if not found:
            there = f"Groups there: {', '.join(groups)}." if groups else "No run there belongs to a group."
            raise Misuse(
                f"There is no group {options.group!r} in {folder}.{did_you_mean(options.group, groups)} {there}"
            )
    if options.sort == "metric":
        found = by_metric(found)
    none = f"There are no runs in {folder}. `trueloop train digits` starts one."
    cells, troubles = runs_table(found), _troubles(found)
    writers = {
        "text": lambda: "\n".join([*table(cells), *([""] if troubles else []), *troubles]) if found else none,
        "json": lambda: json.dumps([{"name": run.name, **as_plain(run)} for run in found], indent=2),
    }
    rows = tuple(tuple(row) for row in cells[1:])
    parts = (Table("", tuple(map(Column, cells[0])), rows),) if found else (Text(none),)
    Delivery(options).deliver_text(writers, lambda: Document(f"Runs in {folder}", parts, tuple(troubles)))
    return 0


def _found(folder: Path) -> list[RunSummary]:
    if (folder / "run.json").is_file():
        return [summary_of(folder)]
    return read_runs(folder) if folder.is_dir() else []


def _troubles(found: list[RunSummary]) -> list[str]:
    """What to do about runs that did not finish: one line each."""
    lines = []
    for run in found:
        if run.status in ("failed", "damaged", "collapsed", "hung"):
            lines.append(f"{run.name}: {run.message or 'it ended with an error'}")
        elif run.collapse:
            lines.append(f"{run.name}: marked. {run.collapse}")
        elif run.status in ("stopped", "killed"):
            words = shlex.join([run.script, *run.arguments])
            checked = f"run it again with `trueloop check {words}`"
            again = (
                checked
                if run.kind == "check"
                else "start its script again"
                if run.own_loop
                else f"continue with `trueloop resume {run.path}`"
            )
            lines.append(f"{run.name}: {again}")
    return lines


def table(rows: list[list[str]]) -> list[str]:
    """Aligned columns, two spaces between them; no spaces at the ends of lines."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
