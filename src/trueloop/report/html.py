"""A document as one HTML file that opens offline: no scripts, no fonts, nothing fetched; light or dark.

`page.py` is the frame and `style.css` the style sheet of every page, those of `trueloop ui` too.
Wide tables, code and charts scroll in their own box, which the keyboard reaches.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import count
from typing import Any, Final

from trueloop import __version__
from trueloop.report.editors import editor_address
from trueloop.report.evidence import lines_around, where
from trueloop.report.page import STYLE, full_page
from trueloop.report.png import enlarged, png
from trueloop.report.svg import bars_svg, lanes_svg, plot_svg
from trueloop.results import document as doc
from trueloop.results.document import cell

__all__ = ["fragment", "render"]


def render(document: doc.Document) -> str:
    title, body = escape(document.name or document.title), "\n".join(piece for piece in _body(document) if piece)
    return full_page(title, f"<style>{STYLE.read_text(encoding='utf-8')}</style>", f"<main>\n{body}\n</main>")


def fragment(document: doc.Document) -> str:
    """The same as a part of another page, such as a notebook: its style reaches nothing outside of it."""
    body = "\n".join(piece for piece in _body(document) if piece)
    style = STYLE.read_text(encoding="utf-8") + SMALLER
    return f'<div class="{SCOPE}"><style>{_scoped(style)}</style>\n{body}\n</div>'


SCOPE: Final = "trueloop-report"
WHOLE_PAGE: Final = (":root", "body", "main")  # in a fragment: the box around it
SMALLER: Final = (
    "main { margin: 0; padding: .6rem 1rem; font-size: 14px; } h1 { font-size: 1.1rem; } footer { margin: 1rem 0 0; }"
)
"""A page has room that the output of a cell does not have."""


def _scoped(style: str) -> str:
    """Every selector of a style sheet, below the box of a fragment."""

    def below(found: re.Match[str]) -> str:
        if found[0].lstrip().startswith("@"):
            return found[0]
        names = [name.strip() for name in found[0].split(",")]
        return "\n" + ", ".join(f".{SCOPE}" if name in WHOLE_PAGE else f".{SCOPE} {name}" for name in names) + " "

    return re.sub(r"[^{}]+(?=\{)", below, re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL))


def _body(document: doc.Document) -> Iterator[str]:
    title = escape(document.title)
    toned = f'<h1 class="{document.tone}"><span class="tone">{title}</span></h1>'
    yield toned if document.tone else f"<h1>{title}</h1>"
    yield f'<p class="soft">{prose(document.subtitle)}</p>' if document.subtitle else ""
    yield from (f'<article class="warning">{prose(note)}</article>' for note in document.notes)
    plots: list[str] = []
    numbers = count(1)
    for part in document.parts:
        if isinstance(part, doc.Plot) and part.show == "always":
            plots.append(_section(part, f"chart-{next(numbers)}"))
            continue
        if plots:
            yield _charts(plots)
            plots = []
        yield _section(part, f"chart-{next(numbers)}")
    yield _charts(plots) if plots else ""
    closing = "".join(f"{escape(line)}.<br>" for line in document.closing)
    yield f"<footer>{closing}Written by trueloop {escape(__version__)}.</footer>"


def _charts(plots: list[str]) -> str:
    """Plots that follow one another share the width of the page."""
    return "\n".join(['<div class="charts">', *plots, "</div>"])


def _section(part: doc.Part, name: str) -> str:
    body = "".join(_part(part, name))
    if part.show == "verbose" and part.title:
        return f"<details><summary>{escape(part.title)}</summary>{body}</details>"
    if not part.title or isinstance(part, doc.Items):
        return body
    hint = f"<small>{escape(part.hint)}</small>" if part.hint else ""
    return f"<section><h2>{escape(part.title)}{hint}</h2>{body}</section>"


def _part(part: doc.Part, name: str) -> Iterator[str]:
    match part:
        case doc.Text():
            label = f"<b>{escape(part.label)}</b> " if part.label else ""
            text = f"{label}{prose(part.text)}"
            yield f'<article class="{part.tone}">{text}</article>' if part.tone else f"<p>{text}</p>"
        case doc.Code():
            yield _diff(part.text) if part.language == "diff" else f'<pre tabindex="0">{escape(part.text)}</pre>'
        case doc.Facts(inline=True):
            chips = (f"<li><b>{escape(cell(value))}</b>{escape(key)}</li>" for key, value in part.values.items())
            yield f'<ul class="chips">{"".join(chips)}</ul>'
        case doc.Facts():
            yield _pairs((key, escape(cell(value, "shape") or "-")) for key, value in part.values.items())
        case doc.Table():
            yield from _table(part)
        case doc.Bars():
            yield f'<div class="chart" tabindex="0">{bars_svg(part, name)}</div>'
        case doc.Lanes():
            yield f'<div class="chart" tabindex="0">{lanes_svg(part, name)}</div>'
        case doc.Plot():
            yield f'<div class="chart" tabindex="0">{plot_svg(part, name)}</div>'
        case doc.Picture():
            yield from _picture(part)
        case doc.Card():
            yield from _card(part)
        case doc.Items():
            yield from _items(part)


def _pairs(rows: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in rows) + "</dl>"


def _table(table: doc.Table) -> Iterator[str]:
    largest = {
        at: max((row[at] for row in table.rows if row[at] is not None), default=0.0) or 1.0
        for at, column in enumerate(table.columns)
        if column.kind == "bar"
    }
    heads = "".join(f'<th class="{column.kind}">{escape(column.name)}</th>' for column in table.columns)
    yield f'<div class="wide" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>'
    for number, row in enumerate(table.rows):
        cells = (
            f'<td class="{column.kind}">{_cell(value, column.kind, largest.get(at))}</td>'
            for at, (value, column) in enumerate(zip(row, table.columns, strict=True))
        )
        yield f'<tr class="best">{"".join(cells)}</tr>' if number in table.best else f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    yield f'<p class="soft">{prose(table.note)}</p>' if table.note else ""


def _cell(value: Any, kind: Any, largest: float | None) -> str:
    if largest is None:
        return escape(cell(value, kind))
    return "" if value is None else f'<i style="width: {100 * value / largest:.1f}%"></i>'


def _picture(picture: doc.Picture) -> Iterator[str]:
    yield '<div class="tiles">'
    for tile in picture.tiles:
        source = base64.b64encode(png(enlarged(tile))).decode()
        caption = escape(tile.caption)
        image = f'<img alt="{caption}" src="data:image/png;base64,{source}">'
        yield f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    yield "</div>"


def _card(card: doc.Card) -> Iterator[str]:
    badge = f'<span class="badge">{escape(card.badge)}</span>' if card.badge else ""
    yield f'<article class="{card.tone}"><header><h2>{badge}{_linked(escape(card.heading), card.address)}</h2>'
    place = f"<code>{escape(where(card.place))}</code>" if card.place else ""
    yield f"{_linked(place, editor_address(card.place))}</header>"
    here = {card.place.line: ' class="here"'} if card.place is not None else {}
    around = lines_around(card.place, card.source, 2)
    lines = [f"<span{here.get(number, '')}><i>{number}</i>{escape(text)}</span>" for number, text in around]
    yield f'<pre class="diff" tabindex="0">{"".join(lines)}</pre>' if lines else ""
    yield f'<p class="message">{prose(card.message)}</p>'
    rows = [*card.rows, *([("fix", card.fix)] if card.fix else []), *card.details]
    yield _pairs((label.capitalize(), prose(text)) for label, text in rows) if rows else ""
    yield f"{_diff(card.diff)}</article>"


def _linked(shown: str, address: str) -> str:
    return f'<a href="{escape(address)}">{shown}</a>' if address else shown


def _diff(diff: str) -> str:
    kinds = {"+": "plus", "-": "minus"}
    heads = ("---", "+++", "@@")
    lines = ((line, "soft" if line.startswith(heads) else kinds.get(line[:1], "")) for line in diff.splitlines())
    spans = "".join(f'<span class="{kind}">{escape(line)}</span>' for line, kind in lines)
    return f'<pre class="diff" tabindex="0">{spans}</pre>' if spans else ""


def _items(items: doc.Items) -> Iterator[str]:
    yield f'<article class="{items.tone}">'
    hint = f"<small>{escape(items.hint)}</small>" if items.hint else ""
    yield f"<h2>{escape(items.title)}{hint}</h2>" if items.title else ""
    yield f'<ul class="lines">{"".join(map(_item, items.items))}</ul></article>'


def _item(item: doc.Item) -> str:
    links = ", ".join(
        f'<a href="{escape(link.target)}" title="{escape(link.title)}"><code>{escape(link.text)}</code></a>'
        for link in item.links
    )
    evidence = f' <span class="soft">— {links}</span>' if links else ""
    command = f'<br><span class="soft">→ <code>{escape(item.command)}</code></span>' if item.command else ""
    label = item.label or item.badge
    badge = f'<span class="{item.tone}"><span class="badge">{escape(label)}</span></span>' if label else ""
    return f"<li>{badge}{prose(item.text)}{evidence}{command}</li>"


def prose(text: str) -> str:
    """Escaped, with `code` shown as code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))
