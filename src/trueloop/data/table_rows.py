"""New rows for a model that was trained on a table: encoded as `facts.more["columns"]` of its training data says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trueloop.data.columns import MISSING, NO_WORD, is_number, read_cells
from trueloop.errors import BadData, did_you_mean

__all__ = ["encode_cell", "is_one_hot", "read_rows"]


def is_one_hot(columns: Sequence[Mapping[str, Any]], width: int) -> bool:
    """Has each category an input of its own? `width`: how many inputs the model has."""
    return width != len(columns) or all(column["kind"] == "number" for column in columns)


def encode_cell(column: Mapping[str, Any], value: float | str, one_hot: bool) -> list[float]:
    """The inputs of one cell: a number, or a text for a column of categories."""
    if column["kind"] == "number":
        return [(float(value) - column["mean"]) / column["spread"]]
    categories = column["categories"]
    code = categories.index(value) if value in categories else len(categories)  # the last one: not seen in training
    return [float(at == code) for at in range(len(categories) + 1)] if one_hot else [float(code)]


def read_rows(
    path: Path, columns: Sequence[Mapping[str, Any]], width: int
) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Inputs [rows, width], and the columns of the file that the model does not use. Raises BadData."""
    names, rows = read_cells(path)
    missing = next((column["name"] for column in columns if column["name"] not in names), None)
    if missing is not None:
        raise BadData(f"{path} has no column {missing!r}.{did_you_mean(missing, names)} Nothing was trained: add it.")
    if not rows:
        raise BadData(f"{path} has a header but no rows. Nothing was trained.")
    one_hot = is_one_hot(columns, width)
    places = [(column, names.index(column["name"])) for column in columns]
    encoded = []
    for line, cells in rows:
        values = [_value(path, line, column, cells[place].strip()) for column, place in places]
        encoded.append(
            [x for (column, _), v in zip(places, values, strict=True) for x in encode_cell(column, v, one_hot)]
        )
    inputs = np.array(encoded, np.float64)
    with np.errstate(over="ignore"):
        narrow = inputs.astype(np.float32)
    odd = np.argwhere(~np.isfinite(narrow))
    if len(odd):
        raise BadData(f"{path}, row {rows[odd[0][0]][0]}: a number is not finite, or too large. Nothing was trained.")
    used = {column["name"] for column in columns}
    return narrow, [name for name in names if name and name not in used]


def _value(path: Path, line: int, column: Mapping[str, Any], cell: str) -> float | str:
    where = f"{path}, row {line}: column {column['name']!r}"
    if column["kind"] == "number":
        if is_number(cell) and cell.lower() not in MISSING:
            return float(cell)
        shown = f"holds {cell!r}, and it was a number in training" if cell else "is empty"
        raise BadData(f"{where} {shown}. Nothing was trained: write a number, or remove the row.")
    if not cell and NO_WORD not in column["categories"]:
        raise BadData(f"{where} is empty. Nothing was trained: fill in the value, or remove the row.")
    return cell or NO_WORD
