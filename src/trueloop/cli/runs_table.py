"""The table of `trueloop runs`: of what was asked for, only the fields that differ; at most 120 columns wide."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from trueloop.report.units import duration, number
from trueloop.session.runs import RunSummary

__all__ = ["WIDEST", "runs_table"]

WIDEST: Final = 120  # columns of the terminal that a line may take
LONGEST: Final = {
    "run": 32,
    "recipe": 20,
    "script": 20,
    "best": 24,
}  # characters of a cell, where the table is too wide
FIELD: Final = 18  # characters of the value of a field
NOT_SHOWN: Final = ("name", "hooks", "trackers")


def runs_table(found: Sequence[RunSummary]) -> list[list[str]]:
    """Heads and rows. Fields that differ between runs of one recipe or script come after its name, while they fit."""
    columns = _columns(found)
    if _width(columns) > WIDEST:
        for name, longest in LONGEST.items():
            if name in columns:
                columns[name] = [_cut(cell, longest) for cell in columns[name]]
    names, shown = list(columns), 0
    for name in _differing(found):
        cells = [_cut(_shown(run.settings.get(name)), FIELD) for run in found]
        if name not in columns and _width({**columns, name: cells}) <= WIDEST:
            columns[name] = cells
            shown += 1
            names.insert(1 + shown, name)
    return [names, *map(list, zip(*(columns[name] for name in names), strict=True))]


def _columns(found: Sequence[RunSummary]) -> dict[str, list[str]]:
    kinds = {run.kind for run in found}
    asked = "script" if kinds == {"check"} else "recipe"
    return {
        "run": [run.name for run in found],
        asked: [_subject(run) for run in found],
        "best": [f"{run.metric} {number(run.best)}" if run.best is not None else "" for run in found],
        **_unless_empty("test", [_test(run) for run in found]),
        **_unless_empty("findings", [_findings(run) for run in found]),
        "steps": [_steps(run) for run in found],
        "time": [duration(run.seconds) if run.seconds is not None else "" for run in found],
        "started": [time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started)) for run in found],
        "status": [run.status for run in found],
    }


def _subject(run: RunSummary) -> str:
    return run.script if run.kind == "check" else run.recipe


def _differing(found: Sequence[RunSummary]) -> list[str]:
    """Fields with more than one value among the runs of one recipe or script; those of the most recipes first."""
    groups: dict[tuple[str, str], list[RunSummary]] = {}
    for run in found:
        groups.setdefault((run.kind, _subject(run)), []).append(run)
    counts: Counter[str] = Counter()
    for members in groups.values():
        for name in dict.fromkeys(name for run in members for name in run.settings):
            values = {repr(run.settings.get(name)) for run in members}
            counts[name] += len(values) > 1 and name not in NOT_SHOWN
    return [name for name, count in counts.most_common() if count]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _unless_empty(name: str, cells: list[str]) -> dict[str, list[str]]:
    return {name: cells} if any(cells) else {}


def _test(run: RunSummary) -> str:
    value = (run.test or {}).get(run.metric)
    return "" if value is None else number(value)


def _findings(run: RunSummary) -> str:
    """`1 error`, `2 warnings`: of the worst severity."""
    for word, count in (run.findings or {}).items():
        return f"{count} {word}{'' if count == 1 or word == 'advice' else 's'}"
    return ""


def _steps(run: RunSummary) -> str:
    total = f"/{run.total_steps:,}" if run.total_steps and run.step != run.total_steps else ""
    return f"{run.step:,}{total}"


def _width(columns: dict[str, list[str]]) -> int:
    return sum(max(map(len, (name, *cells))) + 2 for name, cells in columns.items()) - 2


def _cut(cell: str, longest: int) -> str:
    return cell if len(cell) <= longest else f"{cell[: longest - 1]}…"
