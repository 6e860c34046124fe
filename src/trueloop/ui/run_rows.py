"""A run as one row of the table of runs: what `trueloop runs` says of it, its fields, findings and a small curve."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from trueloop.errors import NotARun
from trueloop.hook import Row
from trueloop.session.folder import running
from trueloop.session.runs import RunSummary, summary_from
from trueloop.track.metrics import FILE, current_rows, row_of
from trueloop.ui.bounded_files import read_json, sampled_lines, stamp
from trueloop.ui.downsample import curve

__all__ = [
    "LONGEST",
    "fields_of",
    "findings_of",
    "flat",
    "id_of",
    "is_running",
    "read_about",
    "run_row",
    "sampled_rows",
    "short",
    "summary_in",
]

SPARK: Final = 16  # Points of the small curve: reading their rows is most of the time of a list of 1,000 runs
LONGEST: Final = 120  # Characters of a value in the table
_BLOCKS, _BLOCK = 16, 8 << 10  # Rows are sampled from so many blocks of so many bytes
_TRAIN, _LAYERS = b'{"kind": "train"', b'{"kind": "layers"'
SEVERITIES: Final = ("error", "warning", "advice")


def id_of(name: str) -> str:
    """A run's name for an address: every name of a folder has one, also where it is not UTF-8."""
    return quote(os.fsencode(name), safe="")


def read_about(folder: Path) -> dict[str, Any]:
    """What run.json says, of runs of every kind. Raises NotARun."""
    about = read_json(folder, "run.json")
    if not isinstance(about, dict):
        raise NotARun("run.json is not a JSON object." if about is not None else "There is no readable run.json.")
    return about


def is_running(folder: Path) -> bool:
    return stamp(folder, "lock")[0] != 0 and not (folder / "lock").is_symlink() and running(folder)


def run_row(folder: Path, *, held: bool) -> dict[str, Any]:
    """For the table of runs. A damaged run has a row too, with what is wrong."""
    name = folder.name
    row: dict[str, Any] = {"id": id_of(name), "name": name, "status": "damaged", "message": "", "fields": {}}
    row |= {"findings": findings_counts(folder), "spark": [], "started": stamp(folder, "run.json")[2] / 1e9}
    try:
        about = read_about(folder)
        rows = sampled_rows(folder)
        summary = summary_in(folder, about, rows, held=held)
    except NotARun as error:
        return {**row, "message": str(error)}
    losses = [(each.step, each.values["loss"]) for each in rows if each.kind == "train" and "loss" in each.values]
    losses.sort()
    small = curve([x for x, _ in losses], [y for _, y in losses], SPARK) if losses else None
    return row | {
        "status": summary.status,
        "message": summary.message[:1000] or summary.collapse[:1000],
        "kind": short(about.get("kind", "train")),
        "group": short(about.get("group") or ""),
        "recipe": summary.recipe or short(about.get("script") or ""),
        "started": summary.started,
        "seconds": summary.seconds,
        "step": summary.step,
        "total": summary.total_steps if isinstance(summary.total_steps, int) else None,
        "metric": summary.metric,
        "higher": summary.higher_is_better,
        "best": summary.best,
        "best_step": summary.best_step,
        "test": (summary.test or {}).get(summary.metric),
        "loss": losses[-1][1] if losses else None,
        "spark": [[*small.x], [*small.y]] if small else [],
        "fields": fields_of(about),
    }


def summary_in(folder: Path, about: Mapping[str, Any], rows: Sequence[Row], *, held: bool) -> RunSummary:
    """What `trueloop runs` says of a run. Raises NotARun."""
    steps = [row for row in rows if row.kind != "test"]
    try:
        return summary_from(folder, about, current_rows(iter(rows)), steps[-1] if steps else None, held=held)
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise NotARun(f"run.json of {folder.name} is damaged ({str(error)[:LONGEST]}).") from None


def sampled_rows(folder: Path) -> list[Row]:
    """Rows of validation and test, and some of training: enough for a small curve, with the last one."""
    lines = [line for line in sampled_lines(folder, FILE, _BLOCKS, _BLOCK) if not line.startswith(_LAYERS)]
    train = [line for line in lines if line.startswith(_TRAIN)]
    step = max(1, len(train) // SPARK)
    some = {*train[::step], *train[-1:]} if step > 1 else None
    rows = []
    for line in lines:
        if some is None or line in some or not line.startswith(_TRAIN):
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
                rows.append(row_of(json.loads(line)))
    return rows


def fields_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, by name: the recipe, the user's own hyperparameters, the script and its arguments."""
    recipe = about.get("recipe")
    fields = dict(recipe) if isinstance(recipe, dict) else {}
    own = fields.pop("hyperparameters", None)
    fields |= own if isinstance(own, dict) else {}
    fields.pop("name", None)
    for name in ("group", "script", "arguments", "commit", "data"):
        if about.get(name):
            fields[name] = about[name]
    return {str(name)[:LONGEST]: short(value) for name, value in flat(fields)}


def flat(fields: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Fields by name; of a mapping, `name.inner`."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", item) for inner, item in value.items())
        else:
            yield str(name), value


def short(value: Any) -> Any:
    """A value for a cell: numbers and words as they are, everything else as JSON, cut."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def findings_of(folder: Path) -> list[dict[str, Any]]:
    """From report.json. Raises NotARun."""
    report = read_json(folder, "report.json")
    findings = report.get("findings") if isinstance(report, dict) else None
    return [each for each in findings if isinstance(each, dict)][:1000] if isinstance(findings, list) else []


def findings_counts(folder: Path) -> dict[str, int]:
    """Severity -> how many."""
    with suppress(NotARun):
        words = [each.get("severity") for each in findings_of(folder)]
        return {severity: count for severity in SEVERITIES if (count := words.count(severity))}
    return {}
