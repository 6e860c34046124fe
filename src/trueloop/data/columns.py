"""A table file as numeric and text columns: CSV by the standard library, Parquet by pyarrow.

No silent guesses: an empty cell, or one that does not fit its column, is refused with file, row and column. A file is
read once, in chunks, into one flat array per column: eight bytes a cell instead of a Python object.
"""

import csv
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from trueloop.data.parquet import read_parquet
from trueloop.errors import BadData, did_you_mean

__all__ = ["MISSING", "NO_WORD", "Columns", "Numbers", "Words", "is_number", "read_cells", "read_columns"]

PIECE: Final = 10_000  # Rows per chunk; the first chunk decides whether a column is numeric or text
MISTAKES: Final = 0.2  # A column with at most this share of text cells is numeric with mistakes; with more it is text
# Spellings of a missing number, in lower case. In a text column only the empty cell is missing.
MISSING: Final = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
PER_NUMBER: Final = 16  # Bytes of a cell: as a number of 64 bits, and as an input of the model
PER_TEXT: Final = 120  # Bytes of a cell as an object of Python, and as its text
NO_WORD: Final = "(missing)"  # The category of empty cells, where they are allowed


@final
@dataclass(frozen=True, slots=True)
class Numbers:
    """A numeric column; NaN is a missing value, only where missing values are allowed."""

    values: npt.NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class Words:
    """A text column: each row's index into `names`."""

    codes: npt.NDArray[np.int64]
    names: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Columns:
    """A table in memory."""

    path: Path
    columns: dict[str, Numbers | Words]
    rows: npt.NDArray[np.int64]  # Row numbers in the file. CSV: the line (the header is 1). Parquet: counted from 1.
    left_out: dict[str, str] = field(default_factory=dict)  # Columns that cannot be used, and why

    def __len__(self) -> int:
        return len(self.rows)

    def refused(self, row: int, words: str) -> BadData:
        """`row`: as an index."""
        return BadData(f"{self.path}, row {self.rows[row]}: {words}")


def read_columns(path: Path, target: str, *, only_target: bool = False, fill: bool = False) -> Columns:
    """The columns of a CSV or Parquet file. `fill`: empty cells are allowed, except in the target."""
    if not path.is_file():
        raise BadData(f"There is no file {path}. Nothing was trained.")
    match path.suffix.lower():
        case ".csv" | ".tsv" | ".txt":
            found = _read_csv(path, target, only_target, fill)
        case ".parquet" | ".pq":
            found = _read_parquet(path, target, only_target, fill)
        case _:
            raise BadData(f"{path} is not a .csv, .tsv or .parquet file. Nothing was trained.")
    if len(found) == 0:
        raise BadData(f"{path} has a header but no rows. Nothing was trained.")
    return found


def read_cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the columns, and each row's number with its cells as text: for a file without a target."""
    if not path.is_file():
        raise BadData(f"There is no file {path}. Nothing was trained.")
    match path.suffix.lower():
        case ".csv" | ".tsv" | ".txt":
            return _csv_cells(path)
        case ".parquet" | ".pq":
            return _parquet_cells(path)
    raise BadData(f"{path} is not a .csv, .tsv or .parquet file. Nothing was trained.")


def _csv_cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            reader = csv.reader(file, delimiter=_delimiter(file.readline(), path), skipinitialspace=True, strict=True)
            file.seek(0)
            header = next(reader)
            _header(path, header, "")
            return [name.strip() for name in header], list(_whole_rows(path, reader, len(header)))
        except UnicodeDecodeError:
            raise BadData(f"{path} is not UTF-8 text. Nothing was trained: convert it with iconv.") from None
        except csv.Error as error:
            raise BadData(f"{path}, row {reader.line_num}: {error}. Nothing was trained.") from None


def _parquet_cells(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """A column that is neither numbers nor text is not unpacked: its cells name its type."""

    def usable(schema: Any) -> list[str]:
        _check_names(path, schema.names)
        return [name for name in schema.names if _kind_of(schema.field(name).type)]

    table, schema = read_parquet(path, usable, PER_TEXT)
    listed = [
        _texts_of(table[name]) if name in table.column_names else [str(schema.field(name).type)] * table.num_rows
        for name in schema.names
    ]
    return list(schema.names), [(line, list(row)) for line, row in enumerate(zip(*listed, strict=True), start=1)]


def _texts_of(column: Any) -> list[str]:
    import pyarrow as pa

    found: list[str] = []
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):  # each different word is one object of Python
            words = ["" if word is None else _as_text(word) for word in chunk.dictionary.to_pylist()]
            found += ["" if place is None else words[place] for place in chunk.indices.to_pylist()]
        else:
            found += ["" if cell is None else _as_text(cell) for cell in chunk.to_pylist()]
    return found


def _as_text(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _refuse_missing(path: Path, row: int, name: str, target: str, shown: str) -> BadData:
    if name == target:
        return BadData(f"{path}, row {row}: the target column {name!r} {shown}. Remove this row from the file.")
    return BadData(
        f"{path}, row {row}: column {name!r} {shown}. Nothing was trained: fill in the value, remove the row, or allow "
        "missing values: read_table(..., missing='fill')."
    )


def _place_of(path: Path, names: Sequence[str], target: str) -> None:
    """Raises BadData where the target is not a column."""
    if target in names:
        return
    headless = sum(map(is_number, names)) * 2 > len(names)
    why = " The first row looks like data: is the header missing?" if headless else did_you_mean(target, names)
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    raise BadData(f"{path} has no column {target!r}.{why} Nothing was trained: its columns are {listed}.")


# -- CSV --


def _read_csv(path: Path, target: str, only_target: bool, fill: bool) -> Columns:
    rows = array("q")
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            reader = csv.reader(file, delimiter=_delimiter(file.readline(), path), skipinitialspace=True, strict=True)
            file.seek(0)
            names, nameless = _header(path, next(reader), target)
            used = {place: name for place, name in names.items() if not only_target or name == target}
            columns = {place: _Column(path, name, target, fill) for place, name in used.items()}
            width = len(names) + len(nameless)
            while piece := list(islice(_whole_rows(path, reader, width), PIECE)):
                lines = [line for line, _ in piece]
                cells = list(zip(*(row for _, row in piece), strict=True))
                for place, column in columns.items():
                    column.add(cells[place], lines)
                rows.extend(lines)
        except UnicodeDecodeError as error:
            raise BadData(
                f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x} after {len(rows):,} rows). Nothing "
                f"was trained: iconv -f latin1 -t utf-8 {path.name} > {path.stem}-utf8{path.suffix}"
            ) from None
        except csv.Error as error:
            cure = "look for a quote that is not closed"
            raise BadData(f"{path}, row {reader.line_num}: {error}. Nothing was trained: {cure}.") from None
    values = {column.name: column.done() for column in columns.values()}
    return Columns(path, values, np.frombuffer(rows, np.int64), nameless)


def _delimiter(first: str, path: Path) -> str:
    if not first.strip():
        raise BadData(f"{path}{', row 1: the header' if first else ''} is empty. Nothing was trained.")
    return max(",;\t|", key=first.count)


def _header(path: Path, cells: list[str], target: str) -> tuple[dict[int, str], dict[str, str]]:
    """Names by position, and the columns without a name, such as a saved row index."""
    names: dict[int, str] = {}
    nameless: dict[str, str] = {}
    seen: dict[str, int] = {}
    for place, name in enumerate(cell.strip() for cell in cells):
        if not name:
            nameless[f"column {place + 1}"] = "it has no name"
            continue
        if name in seen:
            twice = f"columns {seen[name] + 1} and {place + 1} are both called {name!r}"
            raise BadData(f"{path}, row 1: {twice}. Nothing was trained: rename one.")
        seen[name], names[place] = place, name
    if target:
        _place_of(path, list(names.values()), target)
    return names, nameless


def _whole_rows(path: Path, reader: Any, width: int) -> Iterator[tuple[int, list[str]]]:
    """Each row with its first line; blank lines are skipped."""
    begins = reader.line_num + 1
    for row in reader:
        if row and len(row) != width:
            cells = f"{len(row)} cells, but the header has {width}"
            raise BadData(f"{path}, row {begins}: {cells}. Nothing was trained: quote cells with the separator.")
        if row:
            yield begins, row
        begins = reader.line_num + 1


@final
class _Column:
    """A column of a CSV file while it is read."""

    def __init__(self, path: Path, name: str, target: str, fill: bool) -> None:
        self.path, self.name, self.target = path, name, target
        self.fill = fill and name != target
        self.numeric: bool | None = None
        self.numbers = array("d")
        self.codes = array("q")
        self.names: dict[str, int] = {}

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        if self.numeric is None:
            self.numeric = self._holds_numbers(cells, lines)
        if self.numeric:
            self._add_numbers(cells, lines)
        else:
            self._add_words(cells, lines)

    def done(self) -> Numbers | Words:
        if self.numeric or self.numeric is None:
            return Numbers(np.frombuffer(self.numbers, np.float64))
        return Words(np.frombuffer(self.codes, np.int64), tuple(self.names))

    def _holds_numbers(self, cells: Sequence[str], lines: Sequence[int]) -> bool:
        given = [(cell, line) for cell, line in zip(cells, lines, strict=True) if cell.strip().lower() not in MISSING]
        texts = [(cell, line) for cell, line in given if not is_number(cell)]
        if len(texts) <= MISTAKES * len(given):
            return True
        if all(is_number(cell.replace(",", ".")) for cell, _ in texts):
            cell, line = texts[0]
            raise BadData(
                f"{self.path}, row {line}: column {self.name!r} holds {cell!r}, a decimal comma. Nothing was trained: "
                "write numbers with a decimal point, as in 3.5, and no thousands separator."
            )
        return False

    def _add_numbers(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        try:
            if "_" in "".join(cells):  # float("1_000") is valid in Python, but not in a table
                raise ValueError
            piece = array("d", map(float, cells))
        except ValueError:
            piece = array("d", (self._number(cell, line) for cell, line in zip(cells, lines, strict=True)))
        odd = np.flatnonzero(~np.isfinite(np.frombuffer(piece)))
        for place in odd[:1] if not self.fill else odd:
            cell, line = cells[place], lines[place]
            if cell.strip().lower() not in MISSING:
                holds = f"column {self.name!r} holds {cell!r}, which is not finite"
                raise BadData(f"{self.path}, row {line}: {holds}. Nothing was trained.")
            if not self.fill:
                shown = f"holds {cell!r}" if cell.strip() else "is empty"
                raise _refuse_missing(self.path, line, self.name, self.target, shown)
        self.numbers.extend(piece)

    def _number(self, cell: str, line: int) -> float:
        if cell.strip().lower() in MISSING:
            return float("nan")
        if is_number(cell):
            return float(cell)
        raise BadData(
            f"{self.path}, row {line}: column {self.name!r} holds {cell!r}, but its other values are numbers. Nothing "
            "was trained: write a number there, or remove the row."
        )

    def _add_words(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        names = self.names
        for cell, line in zip(cells, lines, strict=True):
            word = cell.strip()
            if not word:
                if not self.fill:
                    raise _refuse_missing(self.path, line, self.name, self.target, "is empty")
                word = NO_WORD
            self.codes.append(names.setdefault(word, len(names)))


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


# -- Parquet --


def _read_parquet(path: Path, target: str, only_target: bool, fill: bool) -> Columns:
    def usable(schema: Any) -> list[str]:
        _check_names(path, schema.names)
        _place_of(path, schema.names, target)
        listed = [target] if only_target else schema.names
        return [name for name in listed if _kind_of(schema.field(name).type)]

    table, schema = read_parquet(path, usable, PER_NUMBER)
    columns: dict[str, Numbers | Words] = {}
    left_out: dict[str, str] = {}
    for name in [target] if only_target else schema.names:
        if name not in table.column_names:
            kind = schema.field(name).type
            if name == target:
                shown = f"{kind}, neither numbers nor text"
                raise BadData(f"{path}: the target column {name!r} is {shown}. Nothing was trained.")
            left_out[name] = f"{kind} is neither numbers nor text"
        elif name.startswith("__index_level_"):
            left_out[name] = "it is a row index"
        else:
            columns[name] = _arrow_column(table[name])
            _check_arrow(path, name, target, columns[name], fill)
    return Columns(path, columns, np.arange(1, table.num_rows + 1), left_out)


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadData(f"{path}: two columns are called {twice!r}. Nothing was trained: rename one.")


def _kind_of(kind: Any) -> Literal["numbers", "words", ""]:
    """Booleans are the words false and true. Empty: neither."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    return "words" if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) else ""


def _arrow_column(values: Any) -> Numbers | Words:
    import pyarrow as pa

    encoded = pa.types.is_dictionary(values.type)
    if _kind_of(values.type) == "words":
        return _arrow_words(values)
    plain = values.cast(values.type.value_type) if encoded else values
    return Numbers(plain.cast(pa.float64()).to_numpy().astype(np.float64, copy=False))


def _arrow_words(values: Any) -> Words:
    """In the order in which they first occur; only different words are decoded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(values.type):
        values = values.cast(pa.string())
    codes, known = np.empty(len(values), np.int64), dict[str, int]()
    at = 0
    for chunk in values.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        texts = coded.dictionary.cast(pa.string()) if pa.types.is_boolean(coded.dictionary.type) else coded.dictionary
        words = [word or NO_WORD for word in pc.utf8_trim_whitespace(texts).to_pylist()] + [NO_WORD]
        places = coded.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
        used, first = np.unique(places, return_index=True)
        for place in used[np.argsort(first)]:
            known.setdefault(words[place], len(known))
        number_of = np.array([known.get(word, -1) for word in words], np.int64)
        codes[at : at + len(places)] = number_of[places]
        at += len(places)
    return Words(codes, tuple(known))


def _check_arrow(path: Path, name: str, target: str, column: Numbers | Words, fill: bool) -> None:
    if isinstance(column, Words):
        empty = column.names.index(NO_WORD) if NO_WORD in column.names else -1
        missing = np.flatnonzero(column.codes == empty)
    else:
        missing = np.flatnonzero(np.isnan(column.values))
        for place in np.flatnonzero(np.isinf(column.values))[:1]:
            shown = f"holds {column.values[place]}, which is not finite"
            raise BadData(f"{path}, row {place + 1}: column {name!r} {shown}. Nothing was trained.")
    if len(missing) and (not fill or name == target):
        raise _refuse_missing(path, int(missing[0]) + 1, name, target, "is empty")
