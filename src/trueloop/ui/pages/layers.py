"""Statistics of each layer over the steps: a table of layers x steps for one statistic."""

import math
from typing import Any, Final

from trueloop.ui.library import Library
from trueloop.ui.metric_columns import RowTable
from trueloop.ui.page import Query

__all__ = ["STATISTICS", "data"]

STATISTICS: Final = {
    "grad_norm": "gradient norm",
    "update": "update ratio",
    "activation_zeros": "dead units (share of zeros)",
    "activation_std": "activation spread",
    "activation_mean": "activation mean",
}
"""Prefix of a column -> its name on the page, in the order of interest. Other prefixes follow as they are."""
MOST_LAYERS: Final = 300
MOST_STEPS: Final = 400


def data(library: Library, query: Query) -> dict[str, Any]:
    """`statistic` is a prefix of STATISTICS or another statistic that was logged; the first of them where absent."""
    columns, complete = library.columns(query.text("run"))
    with columns.lock:
        table = columns.tables.get("layers")
        names = _by_statistic(table) if table else {}
        known = [*(each for each in STATISTICS if each in names), *sorted(set(names) - set(STATISTICS))]
        chosen = query.text("statistic") if query.text("statistic") in names else next(iter(known), "")
        layers = names.get(chosen, [])
        steps, rows = _matrix(table, chosen, layers[:MOST_LAYERS]) if table and layers else ([], [])
    return {
        "statistics": [[each, STATISTICS.get(each, each.replace("_", " "))] for each in known],
        "statistic": chosen,
        "layers": layers[:MOST_LAYERS],
        "left_out": max(0, len(layers) - MOST_LAYERS),
        "steps": steps,
        "values": rows,
        "complete": complete,
    }


def _by_statistic(table: RowTable) -> dict[str, list[str]]:
    """Statistic -> names of layers, in the order of the model."""
    names: dict[str, list[str]] = {}
    for column in table.columns:
        statistic, _, layer = column.partition("/")
        if layer:
            names.setdefault(statistic, []).append(layer)
    return names


def _matrix(table: RowTable, statistic: str, layers: list[str]) -> tuple[list[int], list[list[Any]]]:
    """(steps, a row for each layer): None where nothing was recorded, text where a value is not finite."""
    every = max(1, math.ceil(len(table.steps) / MOST_STEPS))
    last = len(table.steps) - 1
    chosen = [number for number in range(len(table.steps)) if (last - number) % every == 0]  # the newest is always in
    place = {number: at for at, number in enumerate(chosen)}
    rows = []
    for layer in layers:
        row: list[Any] = [None] * len(chosen)
        column = table.columns[f"{statistic}/{layer}"]
        for number, value in zip(column.rows, column.values, strict=True):
            if number in place:
                row[place[number]] = value if math.isfinite(value) else str(value)
        rows.append(row)
    return [table.steps[number] for number in chosen], rows
