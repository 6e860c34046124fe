"""Summaries of runs, read from their folders, for `trueloop runs` and `trueloop compare`. Imports no torch."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from trueloop.errors import NotARun
from trueloop.hook import Row
from trueloop.session.folder import read_about, reading_run, running
from trueloop.track.chosen_metric import chosen_metric, is_higher_better
from trueloop.track.metrics import current_rows, last_row, read_rows
from trueloop.trust.files import printable

__all__ = ["KINDS", "RunSummary", "Status", "by_metric", "fields_of", "read_runs", "summary_from", "summary_of"]

KINDS: Final = ("train", "check")

Status = Literal["running", "finished", "stopped", "killed", "collapsed", "hung", "failed", "damaged"]

# What run.json says of a run that nobody trains -> its status; one that still says 'running' was killed.
STATUS: Final[Mapping[str, Status]] = {
    "finished": "finished",
    "early-stopped": "finished",
    "signal": "stopped",
    "running": "killed",
    "collapsed": "collapsed",
    "hung": "hung",
}


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in one line. None: unknown, or not there yet."""

    path: Path
    status: Status
    message: str = ""  # Why it failed, or what is damaged
    recipe: str = ""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)  # The user's own
    own_loop: bool = False  # Of `trueloop.session`
    group: str = ""  # Of a sweep
    varied: Mapping[str, Any] = field(default_factory=dict)  # What the sweep varies, with this run's values
    started: float = 0.0  # Seconds since 1970
    seconds: float | None = None  # For how long it has trained
    step: int = 0
    total_steps: int | None = None
    metric: str = ""
    higher_is_better: bool = True
    best: float | None = None
    best_step: int | None = None
    test: Mapping[str, float] | None = None
    collapse: str = ""  # How it fell below its baseline and stayed there; empty: it did not
    kind: Literal["train", "check"] = "train"  # check: of a script, by `trueloop check` or `trueloop.watch()`
    script: str = ""  # check: as the user named it
    arguments: tuple[str, ...] = ()  # check: of the script
    findings: Mapping[str, int] | None = None  # check: how many of each severity; None: not known yet
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What was asked for: fields of the recipe and hyperparameters, or arguments of the script by their names."""

    @property
    def name(self) -> str:
        """As it may be shown: control characters are written out."""
        return str(printable(self.path.name))


def read_runs(folder: Path) -> list[RunSummary]:
    """The runs in a folder, newest first. A damaged one is listed too, with what is wrong."""
    found = [_summary_or_damage(path) for path in folder.iterdir() if (path / "run.json").is_file()]
    return sorted((each for each in found if each is not None), key=lambda each: -each.started)


def _summary_or_damage(path: Path) -> RunSummary | None:
    try:
        return summary_of(path)
    except NotARun as error:
        recorded = (path / "events.jsonl").is_file() and not (path / "lock").exists()
        if recorded:  # by `trueloop check --record`: whole, but another kind of run
            return None
        return RunSummary(path, "damaged", str(error), started=path.stat().st_mtime)


def summary_of(path: Path) -> RunSummary:
    """Raises NotARun."""
    with reading_run(path):
        about = read_about(path, KINDS)
        rows = current_rows(read_rows(path, ("valid", "test")))
        return summary_from(path, about, rows, last_row(path), held=running(path))


def summary_from(
    path: Path, about: Mapping[str, Any], rows: Sequence[Row], last: Row | None, *, held: bool
) -> RunSummary:
    """From what run.json says, the rows of validation and test, and the last row. `held`: a process trains it.
    The step is read from the rows while a run runs, and after a kill that left run.json behind."""
    status: Status = "running" if held else STATUS.get(str(about.get("status")), "failed")
    checked = about.get("kind") == "check"
    metric = _metric_in(rows) if checked else str(about.get("metric") or "")
    higher = is_higher_better(metric) if checked else bool(about.get("higher_is_better", metric not in ("", "loss")))
    best, best_step = about.get("best"), about.get("best_step")
    under_way = status in ("running", "killed")
    if under_way or best is None:
        valid = (row for row in rows if row.kind == "valid" and row.best)
        values = [(row.values[metric], row.step) for row in valid if metric in row.values]
        best, best_step = values[-1] if values else (None, None)
    tests = [row.values for row in rows if row.kind == "test"]
    return RunSummary(
        path=path,
        status=status,
        message=str(about.get("message") or ""),
        recipe=str((about.get("recipe") or {}).get("name", "")),
        hyperparameters=(about.get("recipe") or {}).get("hyperparameters") or {},
        own_loop=bool(about.get("session")),
        group=str(about.get("group") or ""),
        varied=about.get("varied") or {},
        started=float(about.get("started") or 0.0),
        seconds=last.values.get("seconds") if last else None,
        step=int(about["step"]) if "step" in about and not under_way else last.step if last else 0,
        total_steps=about.get("total_steps"),
        metric=metric,
        higher_is_better=higher,
        best=None if best is None else float(best),
        best_step=best_step,
        test={name: value for name, value in tests[-1].items() if name != "seconds"} if tests else None,
        collapse=_collapse(about.get("collapse")),
        kind="check" if checked else "train",
        script=str(about.get("script") or ""),
        arguments=tuple(map(str, about.get("arguments") or ())),
        findings=about.get("findings"),
        settings=fields_of(about),
    )


def _metric_in(rows: Sequence[Row]) -> str:
    """Of a checked script: what its first evaluation measured."""
    return next((chosen_metric(row.values) for row in rows if row.kind == "valid"), "")


def fields_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, by name: fields of a recipe and the user's own hyperparameters, or arguments of a script."""
    if about.get("kind") == "check":
        return dict(_arguments([str(word) for word in about.get("arguments") or ()]))
    fields = dict(about.get("recipe") or {})
    return {**(fields.pop("hyperparameters", None) or {}), **fields}


def _arguments(words: list[str]) -> Iterator[tuple[str, str]]:
    """`--lr 0.1 --fast data.csv` -> (--lr, 0.1), (--fast, data.csv): a word after an option counts as its value."""
    name, place = "", 0
    for word in words:
        option = word.startswith("-") and not word.lstrip("-").replace(".", "").replace("e", "").isdigit()
        if option:
            if name:
                yield name, "yes"
            name, sign, value = word.partition("=")
            if sign:
                yield name, value
                name = ""
        elif name:
            yield name, word
            name = ""
        else:
            place += 1
            yield f"argument {place}", word
    if name:
        yield name, "yes"


def _collapse(told: Any) -> str:
    return str(told.get("sentence", "")) if isinstance(told, dict) and told.get("recovered_at") is None else ""


def by_metric(runs: list[RunSummary]) -> list[RunSummary]:
    """The best first, by the metric of each run: different metrics are not compared. Runs without a value come last."""

    def rank(run: RunSummary) -> tuple[bool, str, float]:
        if run.best is None or math.isnan(run.best):
            return True, run.metric, 0.0
        return False, run.metric, -run.best if run.higher_is_better else run.best

    return sorted(runs, key=rank)
