"""A row of a table, by the names of its columns, as the inputs that training made of such rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trueloop.errors import did_you_mean
from trueloop.export.exporter import Array
from trueloop.results.artifact import Port
from trueloop.serve.limits import Refused

__all__ = ["reach", "row_of"]


def row_of(row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], port: Port, where: str) -> Array:
    """Raises Refused: a column is missing, unknown, or of another kind."""
    names = [column["name"] for column in columns]
    for name in row:
        if name not in names:
            raise Refused(
                422, f"{where} has a column {name[:80]!r} that the model does not know.{did_you_mean(name[:80], names)}"
            )
    for name in names:
        if name not in row:
            raise Refused(422, f"{where} has no column {name!r}.")
    one_hot = port.shape[-1] != len(columns) or all(column["kind"] == "number" for column in columns)
    parts = [
        part
        for column in columns
        for part in _part(column, row[column["name"]], one_hot, f"{where}.{column['name']}", port)
    ]
    return np.array(parts, port.dtype)


def reach(column: Mapping[str, Any], port: Port) -> tuple[float, float]:
    """Between which numbers a column's must lie: what is left of them after scaling is finite."""
    furthest = min(float(column["spread"]) * float(np.finfo(port.dtype).max) / 2, sys.float_info.max / 4)
    return column["mean"] - furthest, column["mean"] + furthest


def _part(column: Mapping[str, Any], value: Any, one_hot: bool, where: str, port: Port) -> Iterator[float]:
    if column["kind"] == "number":
        lowest, highest = reach(column, port)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not lowest <= value <= highest:
            raise Refused(422, f"{where} must be a number from {lowest:g} to {highest:g}.")
        yield (value - column["mean"]) / column["spread"]
        return
    if not isinstance(value, str):
        raise Refused(422, f"{where} must be a text.")
    categories = column["categories"]
    code = (
        categories.index(value) if value in categories else len(categories)
    )  # the last one: all that training never saw
    if not one_hot:
        yield float(code)
        return
    yield from (float(at == code) for at in range(len(categories) + 1))
