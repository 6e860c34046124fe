"""One run: its state, progress, findings, console and what it was asked for. Its curves: see `curves`."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trueloop.errors import NotARun
from trueloop.ui.bounded_files import read_tail
from trueloop.ui.library import Library
from trueloop.ui.metric_columns import MetricColumns
from trueloop.ui.page import Query
from trueloop.ui.run_rows import fields_of, findings_of, read_about, short

__all__ = ["data"]

CONSOLES: Final = ("console.log", "console.txt", "output.log", "log.txt", "stdout.log")
RECENT: Final = 50  # Rows that tell the speed of now


def data(library: Library, query: Query) -> dict[str, Any]:
    name = query.text("run")
    folder = library.folder(name)
    row = library.row(name)
    answer: dict[str, Any] = {"row": {**row, "fields": {}}, "findings": [], "problems": [], "fields": {}, "machine": {}}
    try:
        about = read_about(folder)
        answer["fields"] = fields_of(about)
        machine = about.get("machine")
        if isinstance(machine, dict):
            answer["machine"] = {str(key): short(value) for key, value in machine.items()}
        answer["about"] = {key: short(about.get(key)) for key in ("script", "arguments", "commit", "kind", "version")}
    except NotARun as error:
        answer["problems"].append(str(error))
    try:
        answer["findings"] = findings_of(folder)
    except NotARun as error:
        answer["problems"].append(str(error))
    columns, _ = library.columns(name)
    with columns.lock:
        answer["eta"] = _eta(columns, row) if row["status"] == "running" else None
        answer["now"] = _latest(columns)
        if columns.skipped:
            answer["problems"].append(f"metrics.jsonl: {columns.skipped:,} damaged lines were left out.")
    answer["console"] = console_of(folder)
    return answer


def _latest(columns: MetricColumns) -> dict[str, float]:
    """The newest values of a training row."""
    table = columns.tables.get("train")
    found = {name: column.values[-1] for name, column in table.columns.items() if column.values} if table else {}
    return {"step": float(table.steps[-1]), **found} if table and table.steps else found


def _eta(columns: MetricColumns, row: dict[str, Any]) -> float | None:
    """Seconds that are left, at the speed of the last rows."""
    seconds, pair = columns.at_rows("train", "loss", "seconds"), columns.column("train", "loss")
    total = row.get("total")
    if pair is None or seconds is None or not total or len(seconds) < 2 or len(seconds) != len(pair[0]):
        return None
    first = max(0, len(seconds) - RECENT)
    steps, took = pair[0][-1] - pair[0][first], seconds[-1] - seconds[first]
    left = total - pair[0][-1]
    return took / steps * left if steps > 0 and took > 0 and left >= 0 else None


def console_of(folder: Path) -> dict[str, str] | None:
    """The end of what the run printed, where a file has it."""
    for name in CONSOLES:
        with suppress(OSError):
            text = read_tail(folder, name)
            if text is not None:
                return {"file": name, "text": text}
    return None
