"""The curves of runs: few points of each, or all of them where the range is narrow."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

from trueloop.ui.bounded_files import stamp
from trueloop.ui.downsample import curve, smooth
from trueloop.ui.library import Library
from trueloop.ui.metric_columns import MetricColumns
from trueloop.ui.page import Query
from trueloop.ui.run_rows import read_about

__all__ = ["batch_of", "data", "places"]

POINTS: Final = 1200  # of a curve, unless the page asks for others
MOST_POINTS: Final = 20_000


def data(library: Library, query: Query) -> dict[str, Any]:
    """`run` names the run; `series` is `kind/name` (repeat it; all of train, valid where absent), `x` is step, seconds
    or samples, `from` and `to` a range of it, `smooth` a weight between 0 and 1."""
    name = query.text("run")
    columns, complete = library.columns(name)
    points = query.count("points", POINTS, MOST_POINTS)
    low, high, weight = query.number("from"), query.number("to"), query.number("smooth") or 0.0
    batch = batch_of(library, name) if query.text("x") == "samples" else None
    with columns.lock:
        wanted = query.all("series") or [key for key in series_of(columns) if not key.startswith("layers/")]
        found = {}
        for key in wanted[:200]:
            kind, _, metric = key.partition("/")
            pair = columns.column(kind, metric)
            if pair is None or not len(pair[1]):
                continue
            x = places(columns, kind, metric, query.text("x", "step"), batch)
            if x is None:
                continue
            found[key] = _curve(x, pair[1], points, low, high, weight)
        return {
            "series": found,
            "names": series_of(columns),
            "complete": complete,
            "skipped": columns.skipped,
            "bytes": stamp(library.folder(name), "metrics.jsonl")[1],
            "version": columns.version,
        }


def _curve(
    x: Sequence[float], y: array[float], points: int, low: float | None, high: float | None, weight: float
) -> dict[str, Any]:
    raw = curve(x, y, points, low, high)
    answer: dict[str, Any] = {"x": raw.x, "y": raw.y, "total": raw.total, "bad": raw.bad, "exact": raw.total <= points}
    if 0 < weight < 1:
        answer["smooth"] = curve(x, smooth(y, weight), points, low, high).y
    return answer


def series_of(columns: MetricColumns) -> list[str]:
    """`kind/name` of everything that was logged; the layers' are many, and last."""
    names = [f"{kind}/{name}" for kind, table in columns.tables.items() for name in table.columns]
    return sorted(names, key=lambda name: name.startswith("layers/"))


def places(columns: MetricColumns, kind: str, name: str, x: str, batch: float | None) -> Sequence[float] | None:
    """Where a column's values stand on the axis: at steps, seconds or samples. None: unknown."""
    pair = columns.column(kind, name)
    if pair is None:
        return None
    if x == "seconds":
        return columns.at_rows(kind, name, "seconds")
    if x == "samples":
        return None if batch is None else array("d", (step * batch for step in pair[0]))
    return pair[0]


def batch_of(library: Library, name: str) -> float | None:
    """Samples of a step, over all processes; None where run.json does not say."""
    about = read_about(library.folder(name))
    recipe = about.get("recipe")
    if not isinstance(recipe, dict):
        return None
    numbers = [recipe.get("batch"), recipe.get("accumulate", 1), about.get("processes", 1)]
    product = 1.0
    for number in numbers:
        if not isinstance(number, int) or number < 1:
            return None
        product *= number
    return product
