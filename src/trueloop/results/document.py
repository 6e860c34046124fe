"""What `trueloop inspect` has to show, as one value: facts, tables, bars and pictures, one under the other. No torch.

A renderer needs to know nothing of models and tensors: cells are plain values (texts, numbers, shapes as tuples, None
for nothing), and a column's kind says how they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["Bars", "Column", "Facts", "Part", "Picture", "Sheet", "Table", "Tile", "cell"]

Kind = Literal["name", "text", "shape", "count", "real", "flag"]
"""How a column is written: a name or a text as it is, a shape as 3x4, a whole number with commas, a real one to four
places, yes or no."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Facts:
    """Name -> value, one a line."""

    title: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    """One sentence below it."""


@dataclass(frozen=True, slots=True)
class Bars:
    """How many of each: classes, or ranges of values."""

    title: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A small picture: rows of pixels, three bytes each."""

    width: int
    height: int
    rgb: bytes
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    tiles: tuple[Tile, ...]


Part = Facts | Table | Bars | Picture


@dataclass(frozen=True, slots=True)
class Sheet:
    title: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = field(default=())
    """What a person should know: a prefix that must go, numbers that are no numbers."""


_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""What somebody has put into a name must not steer the terminal."""


def cell(value: Any, kind: Kind = "text") -> str:
    """A value as a person reads it."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (tuple, list)):
        if kind == "shape" and all(isinstance(each, int) for each in value):
            return "x".join(map(str, value)) or "one number"
        return ", ".join(cell(each, kind) for each in value)
    return str(value).translate(_CONTROL)
