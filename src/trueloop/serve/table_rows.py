"""A table row by column names -> the model's inputs, encoded as in training."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trueloop.errors import did_you_mean
from trueloop.export.exporter import Array
from trueloop.results.artifact import Port
from trueloop.serve.limits import Refused

__all__ = ["column_range", "row_of"]


def row_of(row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], port: Port, where: str) -> Array:
    """Raises Refused: a column is missing, unknown, or has the wrong type."""
    names = [column["name"] for column in columns]
    unknown = next((name[:80] for name in row if name not in names), None)
    if unknown is not None:
        raise Refused(422, f"{where} has an unknown column {unknown!r}.{did_you_mean(unknown, names)}")
    missing = next((name for name in names if name not in row), None)
    if missing is not None:
        raise Refused(422, f"{where} has no column {missing!r}.")
    one_hot = port.shape[-1] != len(columns) or all(column["kind"] == "number" for column in columns)
    values = [
        value
        for column in columns
        for value in _encode(column, row[column["name"]], one_hot, f"{where}.{column['name']}", port)
    ]
    return np.array(values, port.dtype)


def column_range(column: Mapping[str, Any], port: Port) -> tuple[float, float]:
    """Numbers outside it would not be finite after scaling."""
    furthest = min(float(column["spread"]) * float(np.finfo(port.dtype).max) / 2, sys.float_info.max / 4)
    return column["mean"] - furthest, column["mean"] + furthest


def _encode(column: Mapping[str, Any], value: Any, one_hot: bool, where: str, port: Port) -> Iterator[float]:
    if column["kind"] == "number":
        lowest, highest = column_range(column, port)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not lowest <= value <= highest:
            raise Refused(422, f"{where} must be a number from {lowest:g} to {highest:g}.")
        yield (value - column["mean"]) / column["spread"]
        return
    if not isinstance(value, str):
        raise Refused(422, f"{where} must be a string.")
    categories = column["categories"]
    code = categories.index(value) if value in categories else len(categories)  # the last one: not seen in training
    if one_hot:
        yield from (float(at == code) for at in range(len(categories) + 1))
    else:
        yield float(code)
