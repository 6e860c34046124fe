"""Data files as tables: named columns of numbers or of words, whatever the file is (csv, text, npz, npy, json).

Only a bounded part of a file is read, and nothing in it is executed: no pickles.
"""

import csv
import gzip
import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pickle import UnpicklingError
from typing import Any, Final

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Table", "Values", "read_tables"]

MOST_BYTES: Final = 2**23  # of a text file: about 100,000 lines of a table; the rest is not read. Of pictures
LARGEST_ARRAY: Final = 2**24
WIDEST: Final = 64  # columns of an array: wider ones are pictures or embeddings
LEAST_ROWS: Final = 20
MOST_CHANNELS: Final = 16
SAMPLED: Final = 4001  # numbers of a channel
LONGEST: Final = 64  # characters of a column's name
SNIFFED: Final = 50  # lines that show the delimiter
MOSTLY: Final = 0.98  # of the cells are numbers, in a column of numbers
BINARY: Final = (".bin", ".pkl", ".pickle", ".png", ".jpg", ".jpeg", ".gif", ".wav", ".mp3", ".flac")
BINARY_TOO: Final = (".zip", ".tar", ".safetensors", ".onnx", ".h5", ".parquet", ".log", ".md", ".html", ".xml")
CODE: Final = r"[A-Za-z]+[-_]?\d+"
DELIMITERS: Final = (",", "\t", ";", "|")

Numbers = NDArray[numpy.float64]


@dataclass(frozen=True, slots=True)
class Values:
    """One column: numbers, NaN where a cell is empty; or words."""

    name: str
    numbers: Numbers | None
    words: list[str] | None = None
    kind: str = "text"  # 'text', the dtype of an array, or 'digest': of each row of a wide array
    spelled: list[str] | None = None  # of whole numbers that are not written as usual: 00123, 12.0

    def __len__(self) -> int:
        return len(self.words or ()) if self.numbers is None else len(self.numbers)


@dataclass(frozen=True, slots=True)
class Table:
    path: str
    columns: tuple[Values, ...]
    rows: int
    named: bool  # has a header, or names of arrays
    complete: bool = True  # all rows were read
    lines: bool = False  # plain text: one column of lines
    pictures: tuple[tuple[str, NDArray[Any]], ...] = ()  # arrays [N, H, W] and [N, C, H, W]
    channels: tuple[Values, ...] = ()  # of wide arrays: some of their numbers
    arrays: tuple[tuple[str, NDArray[Any]], ...] = ()  # of numbers, with more than one dimension

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Values:
        return next(column for column in self.columns if column.name == name)


def read_tables(path: str) -> list[Table]:
    """The tables in a file: one per length of arrays in an npz file; none if it is not a table."""
    extension = os.path.splitext(path)[1].lower()
    try:
        if extension in (".npz", ".npy", ".pt", ".pth"):
            return list(_arrays(path, extension))
        if extension in (".json", ".jsonl"):
            return _records(path)
        return [] if extension in BINARY or extension in BINARY_TOO else _text(path)
    except (OSError, ValueError, csv.Error, zipfile.BadZipFile, EOFError, KeyError, RecursionError):
        return []  # not the format that the extension says: the script has read it in its own way


# -- arrays --


def _arrays(path: str, extension: str) -> Iterator[Table]:
    arrays = _stored(path) if extension in (".pt", ".pth") else _loaded(path, extension)
    lengths = dict.fromkeys(len(array) for array in arrays.values() if array.ndim and len(array) >= LEAST_ROWS)
    for length in lengths:
        same = {name: array for name, array in arrays.items() if array.ndim and len(array) == length}
        columns = tuple(column for name, array in same.items() for column in _columns_of(name, array))
        if columns:
            pictures = tuple((n, a) for n, a in same.items() if a.ndim in (3, 4) and a.nbytes <= MOST_BYTES)
            channels = tuple(c for name, array in same.items() for c in _channels(name, array))
            several = tuple((n, a) for n, a in same.items() if a.ndim > 1 and 0 < a.nbytes <= LARGEST_ARRAY)
            yield Table(path, columns, length, True, pictures=pictures, channels=channels, arrays=several)


def _loaded(path: str, extension: str) -> dict[str, NDArray[Any]]:
    loaded = numpy.load(path, allow_pickle=False, mmap_mode="r" if extension == ".npy" else None)
    arrays = {"": loaded} if extension == ".npy" else {name: loaded[name] for name in loaded.files[:WIDEST]}
    return {label: each for name, array in arrays.items() for label, each in _fields(name, array)}


def _fields(name: str, array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Of an array of records: each of its fields."""
    if array.dtype.names is None:
        yield name, array
        return
    for field in array.dtype.names[:WIDEST]:
        yield f"{name}.{field}" if name else field, array[field]


def _stored(path: str) -> dict[str, NDArray[Any]]:
    """Tensors that were saved under plain names; weights have names with points."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError):  # other objects, which would run code
        return {}
    if not isinstance(content, dict) or any("." in str(name) for name in content):
        return {}
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    kept = {name: t for name, t in tensors.items() if t.layout == torch.strided and t.dtype != torch.bfloat16}
    return {name: tensor.detach().numpy() for name, tensor in kept.items() if not tensor.is_complex()}


def _columns_of(name: str, array: NDArray[Any]) -> Iterator[Values]:
    if array.nbytes > LARGEST_ARRAY or array.dtype.kind not in "fiubUS":
        return
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] > WIDEST):
        rows = numpy.ascontiguousarray(array).reshape(len(array), -1)
        yield Values(name, None, [blake2b(row.tobytes(), digest_size=8).hexdigest() for row in rows], "digest")
    elif array.dtype.kind in "US" and array.ndim == 1:
        yield Values(name, None, [str(word) for word in array])
    elif array.dtype.kind in "fiub":
        wide = array.reshape(len(array), -1)
        for index in range(wide.shape[1]):
            label = name if array.ndim == 1 else f"{name}[{index}]"
            yield Values(label, wide[:, index].astype(numpy.float64), None, str(array.dtype))


def _channels(name: str, array: NDArray[Any]) -> Iterator[Values]:
    """Some numbers of each channel of [N, T, C] or [N, C, T]; of [N, T], of all."""
    if array.dtype.kind not in "fiu" or array.nbytes > MOST_BYTES or array.ndim not in (2, 3):
        return
    if array.ndim == 2:
        wide = array[..., None] if array.shape[1] > WIDEST else array[:, :0, None]
    else:
        wide = array if array.shape[2] <= array.shape[1] else array.swapaxes(1, 2)
    if not wide.size or wide.shape[2] > MOST_CHANNELS:
        return
    step = max(1, wide.shape[0] * wide.shape[1] // SAMPLED)
    for index in range(wide.shape[2]):
        values = wide[..., index].reshape(-1)[::step].astype(numpy.float64)
        yield Values(name if wide.shape[2] == 1 else f"{name}, channel {index}", values, None, "channel")


# -- text --


def _text(path: str) -> list[Table]:
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    if b"\0" in data[:4096]:
        return []
    complete = len(data) <= MOST_BYTES
    lines = data[:MOST_BYTES].decode("utf-8", errors="replace").splitlines()
    lines = lines if complete else lines[:-1]
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) < LEAST_ROWS:
        return []
    filled = [line for line in lines if line.strip()]  # blank lines separate blocks: one word per line, sentences
    delimiter = _delimiter(filled[:SNIFFED])
    if delimiter is None:
        return [Table(path, (Values("line", None, lines),), len(lines), False, complete, lines=True)]
    cells = [line.split() for line in filled] if delimiter == " " else list(csv.reader(filled, delimiter=delimiter))
    width = Counter(map(len, cells)).most_common(1)[0][0]
    cells = [row for row in cells if len(row) == width]
    named = _is_header(cells[0], cells[1:])
    names = [cell.strip() for cell in cells[0]] if named else [f"column {index + 1}" for index in range(width)]
    body = cells[1:] if named else cells
    if len(body) < LEAST_ROWS or width > 4 * WIDEST:
        return []
    columns = tuple(_column(name, [row[i].strip() for row in body]) for i, name in enumerate(names))
    return [Table(path, columns, len(body), named, complete)]


def _is_header(first: list[str], rows: list[list[str]]) -> bool:
    """Names: no numbers, each once, short, and none of them comes again in its column."""
    if len(set(first)) < len(first) or any(not cell.strip() or _is_number(cell) for cell in first):
        return False
    if any(len(cell) > LONGEST or len(cell.split()) > 4 for cell in first):
        return False
    return all(name not in {row[index] for row in rows} for index, name in enumerate(first))


def _delimiter(lines: list[str]) -> str | None:
    for delimiter in DELIMITERS:
        counts = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter))
        width, often = counts.most_common(1)[0]
        if width > 1 and often >= MOSTLY * len(lines):
            return delimiter
    widths = Counter(len(line.split()) for line in lines)
    numbers = all(_is_number(cell) for line in lines[1:] for cell in line.split())
    return " " if numbers and widths.most_common(1)[0][1] >= MOSTLY * len(lines) else None


def _column(name: str, cells: list[str]) -> Values:
    filled = [cell for cell in cells if cell]
    if filled and sum(map(_is_number, filled)) >= MOSTLY * len(filled):
        numbers = numpy.array([float(cell) if _is_number(cell) else numpy.nan for cell in cells])
        codes = [cell for cell in filled if not re.fullmatch(CODE, cell)]  # stop 0417 beside the temporary stop T03
        return Values(name, numbers, None, "text", cells if codes and _is_spelled(codes, len(filled)) else None)
    return Values(name, None, cells)


def _is_spelled(cells: list[str], filled: int) -> bool:
    """Whole numbers, some of them with leading zeros or a decimal point, or beside codes with letters: keys, if they
    are looked up."""
    if not all(re.fullmatch(r"-?\d+(\.0)?", cell) for cell in cells):
        return False
    if len(cells) < filled:
        return True
    return any(cell.endswith(".0") or (cell.startswith("0") and len(cell) > 1) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


# -- records --


def _records(path: str) -> list[Table]:
    if os.path.getsize(path) > MOST_BYTES:
        return []
    with open(path, encoding="utf-8") as file:
        content = [json.loads(line) for line in file if line.strip()] if path.endswith("l") else json.load(file)
    lists = [content] if isinstance(content, list) else list(content.values()) if isinstance(content, dict) else []
    tables = []
    if isinstance(content, dict):
        tables += _by_column(path, content)
    for rows in lists:
        if isinstance(rows, list) and len(rows) >= LEAST_ROWS and all(isinstance(row, dict) for row in rows):
            names = [name for name in rows[0] if all(_is_cell(row.get(name)) for row in rows)]
            columns = tuple(_column(name, [str(row[name]) for row in rows]) for name in names)
            texts = [name for name in rows[0] if name not in names and all(_is_text(row.get(name)) for row in rows)]
            columns += tuple(Values(name, None, [" ".join(row[name]) for row in rows]) for name in texts)
            vectors = {name: array for name in rows[0] if (array := _vectors(rows, name)) is not None}
            if columns:
                tables.append(Table(path, columns, len(rows), named=True, arrays=tuple(vectors.items())))
    return tables


def _by_column(path: str, content: dict[str, Any]) -> list[Table]:
    """{"age": [...], "dose": [...]}"""
    lists = {name: value for name, value in content.items() if isinstance(value, list) and all(map(_is_cell, value))}
    length = max(map(len, lists.values()), default=0)
    same = {name: value for name, value in lists.items() if len(value) == length}
    if length < LEAST_ROWS or len(same) < 2:
        return []
    return [Table(path, tuple(_column(name, [str(v) for v in value]) for name, value in same.items()), length, True)]


def _vectors(rows: list[dict[str, Any]], name: str) -> NDArray[Any] | None:
    """A list of as many numbers in each record."""
    lists = [row.get(name) for row in rows]
    length = len(lists[0]) if isinstance(lists[0], list) else 0
    if not length or any(not isinstance(each, list) or len(each) != length for each in lists):
        return None
    if not all(type(value) in (int, float) for each in lists if each for value in each):
        return None
    return numpy.array(lists, dtype=numpy.float64)


def _is_text(value: object) -> bool:
    """A list of words or of lines."""
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _is_cell(value: object) -> bool:
    return isinstance(value, (str, int, float))
