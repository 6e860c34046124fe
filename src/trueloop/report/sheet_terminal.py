"""A sheet in the terminal: coloured tables, bars, and pictures of half blocks, two pixels to a letter."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, TextIO

from trueloop.report.ink import console_for, line, prose
from trueloop.results.document import Bars, Column, Facts, Picture, Sheet, Table, Tile, cell

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["document", "print_sheet"]

LONGEST_BAR: Final = 40
"""Letters of the highest bar."""
PARTS: Final = " ▏▎▍▌▋▊▉"
"""Eighths of a letter, for the end of a bar."""
WIDEST_TILE: Final = 28
"""Pixels across of a tile in the terminal: four of them fit beside one another."""
TILES: Final = 8
"""Pictures that are shown in the terminal; a file has them all."""
STYLE: Final = {"name": "cyan", "shape": "green", "count": "", "real": "", "text": "", "flag": ""}
PLAIN_WIDTH: Final = 10_000
"""Of a pipe or a file: nothing is folded there."""


def print_sheet(sheet: Sheet, *, colour: bool, to: TextIO) -> None:
    console = console_for(to, colour=colour)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    line(console, (sheet.title, "bold"))
    for part in sheet.parts:
        line(console)
        if part.title:
            line(console, (part.title, "bold"))
        match part:
            case Facts():
                _facts(console, part)
            case Table():
                _table(console, part)
            case Bars():
                _bars(console, part)
            case Picture():
                _picture(console, part)
    for number, note in enumerate(sheet.notes):
        if not number:
            line(console)
        prose(console, note, label="note", width=6, label_style="bold yellow")


def document(sheet: Sheet) -> str:
    """The same as plain text."""
    text = io.StringIO()
    print_sheet(sheet, colour=False, to=text)
    return text.getvalue()


def _facts(console: Console, facts: Facts) -> None:
    width = max(map(len, facts.values), default=0) + 2
    for name, value in facts.values.items():
        prose(console, cell(value, "shape") or "-", label=name, width=width, indent=2)


def _table(console: Console, table: Table) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim")
    for column in table.columns:
        numbers = column.kind in ("count", "real")
        shown.add_column(
            Text(column.name), justify="right" if numbers else "left", style=STYLE[column.kind], overflow="fold"
        )
    for row in table.rows:
        shown.add_row(*(_cell(value, column) for value, column in zip(row, table.columns, strict=True)))
    console.print(shown)
    if table.note:
        prose(console, table.note, indent=2, style="dim")


def _cell(value: Any, column: Column) -> Any:
    from rich.text import Text

    written = cell(value, column.kind)
    return Text(written, style="yellow" if column.kind == "flag" and value is False else "")


def _bars(console: Console, bars: Bars) -> None:
    most = max(bars.counts, default=0) or 1
    width = max(map(len, bars.labels), default=0)
    for label, count in zip(bars.labels, bars.counts, strict=True):
        line(console, (f"  {label:>{width}} ", "cyan"), (_bar(count / most), "green"), (f" {count:,}", ""))


def _bar(share: float) -> str:
    whole, eighths = divmod(round(share * LONGEST_BAR * 8), 8)
    return "█" * whole + (PARTS[eighths] if eighths else "")


def _picture(console: Console, picture: Picture) -> None:
    """Only where there are colours; elsewhere the captions."""
    tiles = [_shrunk(tile) for tile in picture.tiles[:TILES]]
    if not console.color_system:
        prose(console, ", ".join(tile.caption or "-" for tile in picture.tiles), indent=2)
        return
    across = max(1, min(len(tiles), console.width // (max(tile.width for tile in tiles) + 2)))
    for start in range(0, len(tiles), across):
        _row_of_tiles(console, tiles[start : start + across])


def _row_of_tiles(console: Console, tiles: list[Tile]) -> None:
    from rich.text import Text

    for top in range(0, max(tile.height for tile in tiles), 2):
        text = Text()
        for tile in tiles:
            for column in range(tile.width):
                text.append("▀", f"{_colour(tile, top, column)} on {_colour(tile, top + 1, column)}")
            text.append("  ")
        console.print(text, soft_wrap=True)
    line(console, ("".join(f"{tile.caption[: tile.width]:<{tile.width + 2}}" for tile in tiles), "cyan"))


def _colour(tile: Tile, row: int, column: int) -> str:
    if row >= tile.height:
        return "default"
    at = 3 * (row * tile.width + column)
    return "#" + tile.rgb[at : at + 3].hex()


def _shrunk(tile: Tile) -> Tile:
    """Every n-th pixel, until it is narrow enough."""
    step = -(-tile.width // WIDEST_TILE)
    if step == 1:
        return tile
    rows = [
        b"".join(tile.rgb[3 * (row * tile.width + column) :][:3] for column in range(0, tile.width, step))
        for row in range(0, tile.height, step)
    ]
    return Tile(-(-tile.width // step), len(rows), b"".join(rows), tile.caption)
