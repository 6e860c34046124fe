"""A report as one value, which every renderer of `trueloop.report` can write: parts, one below the other. No torch.

A renderer knows nothing of models and tensors. Cells are plain values (text, numbers, shapes as tuples, None for
nothing), and the kind of a column says how they are written. Prose may quote code in `backticks`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from trueloop.event import Place

__all__ = ["Axis", "Bars", "Card", "Code", "Column", "Document", "Facts", "Item", "Items", "Kind", "Lane", "Lanes"]
__all__ += ["Link", "Part", "Picture", "Plot", "Segment", "Series", "Show", "Table", "Text", "Tile", "Tone", "cell"]
__all__ += ["columns"]

Kind = Literal["name", "text", "shape", "count", "real", "flag", "number", "bar"]
"""How a column is written: name and text as they are, shape as 3x4, count with commas, real to four digits, flag as yes
or no, number as prepared text aligned right, bar as a bar relative to the largest value of the column."""
Tone = Literal["", "good", "advice", "warning", "error"]
Show = Literal["always", "page", "verbose"]
"""page: on pages only (HTML, Markdown). verbose: on pages, and in the terminal only with `verbose`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    hint: str = ""  # beside the title
    show: Show = "always"


@dataclass(frozen=True, slots=True)
class Text(_Shown):
    """A paragraph."""

    text: str
    label: str = ""
    tone: Tone = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Code(_Shown):
    """Lines shown as they are: a traceback, a diff."""

    text: str
    language: str = "text"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Facts(_Shown):
    """Name -> value, one per line; `inline`: side by side."""

    title: str
    values: Mapping[str, Any]
    inline: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind = "text"


def columns(name: str, *numbers: str) -> tuple[Column, ...]:
    """A first column of text, and columns of numbers."""
    return Column(name), *(Column(number, "number") for number in numbers)


@dataclass(frozen=True, slots=True)
class Table(_Shown):
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""  # one sentence below the table
    best: frozenset[int] = frozenset()  # rows that stand out


@dataclass(frozen=True, slots=True)
class Bars(_Shown):
    """One bar per label."""

    title: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    texts: tuple[str, ...] = ()  # the value as text, where a plain number is not enough
    whiskers: tuple[tuple[float, ...], ...] = ()
    """Per bar, further values to mark beyond its end: the 95th and the 99th percentile."""
    colors: tuple[int, ...] = ()  # per bar, a number in the palette


@dataclass(frozen=True, slots=True)
class Tile:
    """A small picture: rows of pixels, three bytes each."""

    width: int
    height: int
    rgb: bytes
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Picture(_Shown):
    title: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    label: str = ""
    scale: Literal["linear", "log", "auto"] = "linear"  # auto: log where the largest value is many times the smallest
    unit: str = ""  # of the numbers beside it: B, s, x (times), FLOP/s; empty: plain numbers
    ticks: tuple[float, ...] = ()  # empty: round numbers are chosen
    zero: bool = False  # the axis begins at zero


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind. Values that are NaN or Inf are gaps, and marked."""

    name: str
    points: tuple[tuple[float, float], ...]
    color: int | Tone = 0
    line: bool = True
    dots: bool = False
    labels: tuple[str, ...] = ()  # one short text per dot; a plot with labels is also drawn in the terminal
    titles: tuple[str, ...] = ()  # one text per dot, shown on hover
    sizes: tuple[float, ...] = ()  # radius of each dot
    mark: tuple[float, float] | None = None  # A point to emphasize: the best


@dataclass(frozen=True, slots=True)
class Plot(_Shown):
    """Lines and dots over two axes."""

    title: str
    series: tuple[Series, ...]
    x: Axis = Axis()
    y: Axis = Axis()


@dataclass(frozen=True, slots=True)
class Segment:
    name: str
    start: float
    end: float
    text: str  # its size, as text
    color: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    label: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Lanes(_Shown):
    """Horizontal stacks that share one scale: the phases of a step, a timeline, parts of memory."""

    title: str
    lanes: tuple[Lane, ...]
    unit: str = ""  # of the scale below them; empty: no scale


@dataclass(frozen=True, slots=True)
class Card(_Shown):
    """A finding, or anything that has a place, a sentence and a fix."""

    heading: str
    message: str
    tone: Tone = ""
    badge: str = ""
    place: Place | None = None
    source: str = ""  # the user's line at that place
    fix: str = ""
    more: str = ""  # what to type to read more: `trueloop explain GRD101`
    address: str = ""  # where a browser reads more
    rows: tuple[tuple[str, str], ...] = ()  # (label, text) between message and fix: origin of a crash, likely causes
    details: tuple[tuple[str, str], ...] = ()
    """(label, text): why it hurts, evidence. In the terminal with `verbose` only."""
    diff: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    target: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    label: str
    text: str
    tone: Tone = ""
    links: tuple[Link, ...] = ()
    command: str = ""  # what to type about it
    badge: str = ""  # A label that Markdown leaves out, because the sign of the tone says enough


@dataclass(frozen=True, slots=True)
class Items(_Shown):
    """Statements, one per line, each with a short label before it."""

    title: str
    items: tuple[Item, ...]
    tone: Tone = ""


Part = Text | Code | Facts | Table | Bars | Picture | Plot | Lanes | Card | Items


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()  # what a reader should know: a prefix to remove, non-finite values
    subtitle: str = ""
    tone: Tone = ""
    closing: tuple[str, ...] = ()  # the last lines; the first of them is the verdict
    lead: bool = True  # the terminal prints title and subtitle above the parts; False: the closing lines are enough
    name: str = ""  # of the browser's tab; empty: the title
    data: Mapping[str, Any] | None = None  # for JSON; None: the parts

    def plain(self) -> Mapping[str, Any]:
        if self.data is not None:
            return self.data
        parts = [{"kind": type(part).__name__.lower(), "title": part.title, **_plain(part)} for part in self.parts]
        return {"title": self.title, "parts": parts, "notes": self.notes}


def _plain(part: Part) -> dict[str, Any]:
    match part:
        case Facts():
            return {"values": part.values}
        case Table():
            names = [column.name for column in part.columns]
            return {"rows": [dict(zip(names, row, strict=True)) for row in part.rows], "note": part.note}
        case Bars():
            return {"bars": [{"label": k, "count": v} for k, v in zip(part.labels, part.values, strict=True)]}
        case Picture():
            return {"tiles": [{"width": t.width, "height": t.height, "caption": t.caption} for t in part.tiles]}
        case _:
            return {each.name: getattr(part, each.name) for each in fields(part)}


_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""A name that contains control characters must not control the terminal."""


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
            return "x".join(map(str, value)) or "scalar"
        return ", ".join(cell(each, kind) for each in value)
    return str(value).translate(_CONTROL)
