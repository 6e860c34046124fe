"""The table of runs: one row for each, and the fields in which they differ."""

from collections.abc import Sequence
from typing import Any, Final

from trueloop.ui.library import Library
from trueloop.ui.page import Query

__all__ = ["data", "differing"]

MOST_FIELDS: Final = 40  # Columns for fields that differ; runs of unlike recipes differ in nearly all


def data(library: Library, query: Query) -> dict[str, Any]:
    """With `run` parameters: the rows of these runs only, for an update."""
    wanted = set(query.all("run"))
    rows = library.rows()
    fields = differing([row["fields"] for row in rows])
    shown = [
        {**row, "fields": {name: row["fields"].get(name) for name in fields}}
        for row in rows
        if not wanted or row["name"] in wanted
    ]
    return {"fields": fields, "runs": shown}


def differing(sides: Sequence[dict[str, Any]]) -> list[str]:
    """Names of fields that have more than one value; fields with few values, which are worth grouping by, come first. A
    field that a damaged run or a run of another kind does not have does not count."""
    first: dict[str, Any] = {}
    values: dict[str, set[str]] = {}
    for side in sides:
        for name, value in side.items():
            if name not in first:
                first[name] = value
            elif first[name] != value:
                values.setdefault(name, {repr(first[name])}).add(repr(value))
    return sorted(values, key=lambda name: (len(values[name]) > 20, name))[:MOST_FIELDS]
