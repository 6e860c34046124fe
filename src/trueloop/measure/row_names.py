"""Does a file name the rows of another file? Then a script can look them up, and their order says nothing."""

import json
import os
import zipfile
from collections.abc import Iterable
from pickle import UnpicklingError
from typing import Any, Final

import numpy
import torch

__all__ = ["names_rows"]

LARGEST: Final = 2**23  # bytes
DEEPEST: Final = 3
ARRAYS: Final = (".npz", ".npy", ".pt", ".pth")


def names_rows(path: str, rows: int) -> bool:
    """Whether a file has a list of so many different names or numbers."""
    if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
        return False
    try:
        if path.endswith(ARRAYS):
            return any(_is_list_of(values, rows) for values in _lists_of_arrays(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".json"):
            return _holds(json.loads(text), rows, DEEPEST)
        lines = [_first_field(line) for line in text.splitlines()]
        return _is_list_of(lines, rows) or _is_list_of(lines[1:], rows)
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, UnpicklingError, zipfile.BadZipFile):
        return False  # not the format that the extension says


def _first_field(line: str) -> str:
    """Up to a comma or a tab; of `17 topic2 train` the number."""
    field = line.split(",")[0].split("\t")[0].strip()
    number = field.split(" ")[0]
    return number if number.isdecimal() else field


def _lists_of_arrays(path: str) -> Iterable[Any]:
    if path.endswith(".npy"):
        return [_plain(numpy.load(path, allow_pickle=False))]
    if path.endswith(".npz"):
        with numpy.load(path, allow_pickle=False) as arrays:
            return [_plain(array) for array in arrays.values()]
    content = torch.load(path, map_location="cpu", weights_only=True)
    values = list(content.values()) if isinstance(content, dict) else [content]
    return [_plain(value.numpy()) if isinstance(value, torch.Tensor) else value for value in values]


def _plain(array: Any) -> list[Any]:
    """A list of names or whole numbers, or nothing."""
    return list(array.tolist()) if array.ndim == 1 and array.dtype.kind in "iuUS" else []


def _holds(content: Any, rows: int, depth: int) -> bool:
    if _is_list_of(content, rows):
        return True
    if depth == 0 or not isinstance(content, (list, dict)):
        return False
    inner = content.values() if isinstance(content, dict) else content[:8]
    return any(_holds(each, rows, depth - 1) for each in list(inner)[:64])


def _is_list_of(values: Any, rows: int) -> bool:
    """So many different names or whole numbers: as a list, or as the keys of a mapping. Numbers that only count are no
    names: they say where a row is anyway."""
    if not isinstance(values, (list, tuple, dict)) or len(values) != rows:
        return False
    names = list(values)
    if not all(isinstance(each, (str, int, bytes)) for each in names) or len(set(names)) < rows:
        return False
    return not (all(str(each).isdecimal() for each in names) and list(map(int, names)) == sorted(map(int, names)))
