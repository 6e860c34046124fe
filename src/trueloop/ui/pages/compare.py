"""Runs side by side: what differs in recipe, machine, code and results, from which step on the losses differ."""

from dataclasses import asdict
from typing import Any, Final

from trueloop.errors import Misuse
from trueloop.hook import Row
from trueloop.results.plain import as_plain
from trueloop.session.comparison import compare_read
from trueloop.session.runs import summary_from
from trueloop.ui.library import Library
from trueloop.ui.metric_columns import MetricColumns
from trueloop.ui.page import Query
from trueloop.ui.run_rows import is_running, read_about

__all__ = ["data"]

MOST_RUNS: Final = 60
MOST_ROWS: Final = 200_000
"""Rows of a run that are compared for the first difference; later ones are left out, and the page says so."""


def data(library: Library, query: Query) -> dict[str, Any]:
    names = list(dict.fromkeys(query.all("run")))
    if not 2 <= len(names) <= MOST_RUNS:
        raise Misuse(f"Choose 2 to {MOST_RUNS} runs in the table of runs; {len(names)} were named.")
    abouts = [read_about(library.folder(name)) for name in names]
    rows, cut = [], []
    for name in names:
        columns, complete = library.columns(name)
        with columns.lock:
            rows.append(_rows(columns))
        if not complete or len(rows[-1]) >= MOST_ROWS:
            cut.append(name)
    summaries = tuple(
        summary_from(path, about, side, side[-1] if side else None, held=is_running(path))
        for path, about, side in zip(map(library.folder, names), abouts, rows, strict=True)
    )
    found = compare_read(summaries, abouts, rows)
    losses = [{**asdict(each), "equal": each.compared > 0 and each.step is None} for each in found.partings]
    sides = {name: getattr(found, name) for name in ("recipe", "machine", "code", "results")}
    shown = [{**library.row(name), "spark": [], "fields": library.row(name)["fields"]} for name in names]
    plain = as_plain({**sides, "losses": losses, "labels": found.labels, "cut": cut})
    return {**plain, "runs": shown}


def _rows(columns: MetricColumns) -> list[Row]:
    """Rows of training and validation; only their losses and seconds, which is what is compared."""
    rows = []
    for kind in ("train", "valid"):
        pair = columns.column(kind, "loss")
        seconds = columns.at_rows(kind, "loss", "seconds") if pair else None
        speeds = columns.at_rows(kind, "loss", "samples_per_second") if pair else None
        for number in range(min(MOST_ROWS, len(pair[1])) if pair else 0):
            assert pair is not None
            values = {"loss": pair[1][number]}
            for name, others in (("seconds", seconds), ("samples_per_second", speeds)):
                if others is not None:
                    values[name] = others[number]
            rows.append(Row(kind, pair[0][number], 0.0, values))
    return sorted(rows, key=lambda row: row.step)
