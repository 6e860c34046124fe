"""A document in the terminal: colored and folded to its width there, plain and unfolded in a pipe or a file."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TextIO, final

from trueloop.report.console import PLAIN_WIDTH, console_for, line, prose
from trueloop.report.evidence import lines_around, where
from trueloop.report.units import quantity
from trueloop.results import document as doc
from trueloop.results.document import cell

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["SIGN", "Live", "letters", "print_document", "render"]

SIGN: Final = {"good": "✓", "error": "✗", "warning": "!", "advice": "·", "": " "}
STYLE: Final = {"good": "bold green", "error": "bold red", "warning": "bold yellow", "advice": "bold cyan", "": "bold"}
COLUMN_STYLE: Final = {"name": "cyan", "shape": "green", "bar": "green"}
LABEL: Final = 11  # columns of the labels of a card: why, fix, evidence
LEAST_NAME: Final = 16  # columns for the names of a table: with less, its lines are longer than the terminal
LONGEST_BAR: Final = 40  # letters of the longest bar
COLUMN_BAR: Final = 20  # letters of the longest bar inside a table
EIGHTHS: Final = " ▏▎▍▌▋▊▉"  # eighths of a letter, for the end of a bar
WIDEST_TILE: Final = 28  # pixels across of a tile in the terminal: four of them fit side by side
TILES: Final = 8  # pictures shown in the terminal; a page has them all
PLOT_WIDTH: Final = 60
PLOT_HEIGHT: Final = 10


def render(document: doc.Document, *, verbose: bool = False) -> str:
    """As plain text."""
    text = io.StringIO()
    print_document(document, to=text, color=False, verbose=verbose)
    return text.getvalue()


def print_document(document: doc.Document, *, to: TextIO, color: bool, verbose: bool = False) -> None:
    live = Live(to, color=color, verbose=verbose)
    if document.lead:
        line(live.console, (document.title, "bold"))
        if document.subtitle:
            prose(live.console, document.subtitle, style="dim")
    for part in document.parts:
        live.show(part)
    live.close(document)


@final
class Live:
    """Prints the parts of a report one by one, as they become known."""

    def __init__(self, to: TextIO, *, color: bool, verbose: bool = False) -> None:
        self.console, self.verbose = console_for(to, color=color), verbose
        self._spaced = False  # the last line is empty

    def show(self, part: doc.Part) -> None:
        if part.show == "page" or (part.show == "verbose" and not self.verbose):
            return
        if isinstance(part, doc.Plot) and not letters(part):
            return
        if part.title and not self._spaced:
            line(self.console)
        if part.title:
            line(self.console, (part.title, "bold"), (f"  {part.hint}" if part.hint else "", "dim"))
        self._spaced = isinstance(part, doc.Card)
        if isinstance(part, doc.Card):
            _card(self.console, part, self.verbose)
        else:
            _PRINTERS[type(part)](self.console, part)

    def close(self, document: doc.Document) -> None:
        """The notes and the closing lines."""
        if document.notes and not self._spaced:
            line(self.console)
        for note in document.notes:
            prose(self.console, note, "note", width=6, label_style="bold yellow")
        for number, text in enumerate(document.closing):
            sign = f"{SIGN[document.tone]} " if document.tone and not number else ""
            prose(self.console, f"{sign}{text}", style=STYLE[document.tone] if not number else "dim")


def _text(console: Console, part: doc.Text) -> None:
    width = max(10, len(part.label) + 2) if part.label else 0
    style = STYLE[part.tone] if part.tone else ""
    prose(console, part.text, part.label, width=width, style=style if not part.label else "", label_style=style)


def _code(console: Console, part: doc.Code) -> None:
    for each in part.text.rstrip("\n").split("\n"):
        line(console, (f"    {each}", _diff_style(each) if part.language == "diff" else "dim"))


def _diff_style(text: str) -> str:
    return "dim" if text.startswith(("---", "+++", "@@")) else {"+": "green", "-": "red"}.get(text[:1], "")


def _facts(console: Console, facts: doc.Facts) -> None:
    if facts.inline:
        prose(console, " · ".join(f"{key} {cell(value)}" for key, value in facts.values.items()), indent=2)
        return
    width = max(map(len, facts.values), default=0) + 2
    for name, value in facts.values.items():
        prose(console, cell(value, "shape") or "-", name, width=width, indent=2)


def _table(console: Console, table: doc.Table) -> None:
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1), header_style="dim")
    largest: dict[int, float] = {}
    if table.best:
        shown.add_column("", style="bold green")
    for at, column in enumerate(table.columns):
        numbers = column.kind in ("count", "real", "number")
        style = COLUMN_STYLE.get(column.kind, "")
        shown.add_column(
            Text(column.name), justify="right" if numbers else "left", style=style, overflow="fold", no_wrap=numbers
        )
        if column.kind == "bar":
            largest[at] = max((row[at] for row in table.rows if row[at] is not None), default=0.0)
    for number, row in enumerate(table.rows):
        cells = (_cell(value, table.columns[at], largest.get(at)) for at, value in enumerate(row))
        mark = ["→" if number in table.best else ""] if table.best else []
        shown.add_row(*mark, *cells, style="bold" if number in table.best else "")
    if console.is_terminal:  # names fold, numbers never: a table that is still too wide is not cut
        needed = Measurement.get(console, console.options.update(max_width=PLAIN_WIDTH), shown)
        shown.width = needed.maximum if needed.minimum + LEAST_NAME > console.width else None
    console.print(shown, crop=False)
    if table.note:
        prose(console, table.note, indent=2, style="dim")


def _cell(value: Any, column: doc.Column, largest: float | None) -> Any:
    from rich.text import Text

    if largest is not None:
        return Text("" if value is None else "█" * max(1, round(COLUMN_BAR * value / (largest or 1.0))))
    written = cell(value, column.kind)
    return Text(written, style="yellow" if column.kind == "flag" and value is False else "")


def _bars(console: Console, bars: doc.Bars) -> None:
    texts = bars.texts or tuple(quantity(value) for value in bars.values)
    _bar_lines(console, [(*each,) for each in zip(bars.labels, bars.values, texts, strict=True)])


def _bar_lines(console: Console, rows: list[tuple[str, float, str]]) -> None:
    most = max((value for _, value, _ in rows), default=0) or 1
    labels, texts = max((len(row[0]) for row in rows), default=0), max((len(row[2]) for row in rows), default=0)
    for label, value, text in rows:
        whole, eighths = divmod(round(value / most * LONGEST_BAR * 8), 8)
        bar = "█" * whole + (EIGHTHS[eighths] if eighths else "")
        line(console, (f"  {label:<{labels}} ", "cyan"), (f"{text:>{texts}} ", ""), (bar, "green"))


def _lanes(console: Console, chart: doc.Lanes) -> None:
    for lane in chart.lanes:
        if lane.label and len(chart.lanes) > 1:
            line(console, (f"  {lane.label}", "bold"))
        _bar_lines(console, [(each.name, each.end - each.start, each.text) for each in lane.segments])


def _plot(console: Console, plot: doc.Plot) -> None:
    for each in letters(plot):
        line(console, (each, ""))


def letters(plot: doc.Plot) -> list[str]:
    """A plot of labeled dots, drawn in letters; nothing for other plots, or with fewer than two dots."""
    dots = [
        (*point, label)
        for each in reversed(plot.series)
        for point, label in zip(each.points, each.labels, strict=bool(each.labels))
    ]
    if len(dots) < 2:
        return []
    xs, ys = [dot[0] for dot in dots], [dot[1] for dot in dots]
    grid = [[" "] * PLOT_WIDTH for _ in range(PLOT_HEIGHT)]
    for x, y, label in dots:
        row = PLOT_HEIGHT - 1 - _position(y, min(ys), max(ys), PLOT_HEIGHT)
        grid[row][_position(x, min(xs), max(xs), PLOT_WIDTH)] = label[:1]
    labels = {0: quantity(max(ys), plot.y.unit), PLOT_HEIGHT - 1: quantity(min(ys), plot.y.unit)}
    lines = [f"{labels.get(number, ''):>8} │{''.join(row).rstrip()}" for number, row in enumerate(grid)]
    low, high = quantity(min(xs), plot.x.unit), quantity(max(xs), plot.x.unit)
    lines.append(f"{'':8} └{'─' * PLOT_WIDTH}")
    lines.append(f"{'':10}{low}{plot.x.label:^{max(0, PLOT_WIDTH - len(low) - len(high))}}{high}")
    return lines


def _position(value: float, low: float, high: float, cells: int) -> int:
    return round((value - low) / (high - low) * (cells - 1)) if high > low else 0


def _items(console: Console, items: doc.Items) -> None:
    width = max((len(_label(item)) for item in items.items), default=0) + 2
    for item in items.items:
        style = STYLE[item.tone] if item.tone else "cyan"
        prose(console, item.text, _label(item), width=width, label_style=style)
        if item.command:
            prose(console, item.command, width=width, style="dim")


def _label(item: doc.Item) -> str:
    return f"{SIGN[item.tone]} {item.label or item.badge}"


def _card(console: Console, card: doc.Card, verbose: bool) -> None:
    place = where(card.place)
    badge = f"{SIGN[card.tone]} {card.badge}".strip()
    parts = [(f"{badge} ", STYLE[card.tone]), (card.heading, "bold")]
    line(console, *parts, *([("  ", ""), (place, "cyan underline")] if place else []))
    if verbose:
        for number, text in lines_around(card.place, card.source, 1):
            here = card.place is not None and number == card.place.line
            mark = (f"  {'❱' if here else ' '} {number:>4} │ ", "red" if here else "dim")
            line(console, mark, (text, "bold" if here else "dim"))
    prose(console, card.message, indent=2, style="bold" if verbose else "")
    details = card.details if verbose else ()
    width = max([LABEL if verbose else 6, *(len(label) + 2 for label, _ in card.rows)])
    for label, text in (*card.rows, ("fix", card.fix), *details, ("more", card.more)):
        if text:
            prose(console, text, label, width=width, indent=2)
    if card.diff and verbose:
        line(console)
        _code(console, doc.Code(card.diff, "diff"))
    line(console)


def _picture(console: Console, picture: doc.Picture) -> None:
    """Half blocks, two pixels to a letter, only where there are colors; elsewhere the captions."""
    tiles = [_shrunk(tile) for tile in picture.tiles[:TILES]]
    if not console.color_system:
        prose(console, ", ".join(tile.caption or "-" for tile in picture.tiles), indent=2)
        return
    across = max(1, min(len(tiles), console.width // (max(tile.width for tile in tiles) + 2)))
    for start in range(0, len(tiles), across):
        _row_of_tiles(console, tiles[start : start + across])


def _row_of_tiles(console: Console, tiles: list[doc.Tile]) -> None:
    from rich.text import Text

    for top in range(0, max(tile.height for tile in tiles), 2):
        text = Text()
        for tile in tiles:
            for column in range(tile.width):
                text.append("▀", f"{_color(tile, top, column)} on {_color(tile, top + 1, column)}")
            text.append("  ")
        console.print(text, soft_wrap=True)
    line(console, ("".join(f"{tile.caption[: tile.width]:<{tile.width + 2}}" for tile in tiles), "cyan"))


def _color(tile: doc.Tile, row: int, column: int) -> str:
    if row >= tile.height:
        return "default"
    at = 3 * (row * tile.width + column)
    return "#" + tile.rgb[at : at + 3].hex()


def _shrunk(tile: doc.Tile) -> doc.Tile:
    """Every n-th pixel, until it is narrow enough."""
    step = -(-tile.width // WIDEST_TILE)
    if step == 1:
        return tile
    rows = [
        b"".join(tile.rgb[3 * (row * tile.width + column) :][:3] for column in range(0, tile.width, step))
        for row in range(0, tile.height, step)
    ]
    return doc.Tile(-(-tile.width // step), len(rows), b"".join(rows), tile.caption)


_PRINTERS: Final[dict[type, Callable[[Console, Any], None]]] = {
    doc.Text: _text,
    doc.Code: _code,
    doc.Facts: _facts,
    doc.Table: _table,
    doc.Bars: _bars,
    doc.Lanes: _lanes,
    doc.Plot: _plot,
    doc.Items: _items,
    doc.Picture: _picture,
}
