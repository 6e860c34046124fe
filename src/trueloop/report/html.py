"""A document as one HTML file that opens offline: no scripts, no fonts, nothing fetched; light or dark as the system is.

The style sheet of every page is here. Wide tables, code and charts scroll inside their own box, so a page fits 390 px.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import count
from typing import Any, Final

from trueloop import __version__
from trueloop.report.evidence import lines_around, where
from trueloop.report.png import enlarged, png
from trueloop.report.svg import bars_svg, lanes_svg, plot_svg
from trueloop.results.document import (
    Bars,
    Card,
    Code,
    Document,
    Facts,
    Item,
    Items,
    Lanes,
    Part,
    Picture,
    Plot,
    Table,
    Text,
    cell,
)

__all__ = ["render"]

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #fff; --ink: #1d2125; --soft: #626a73; --line: #e3e4e2; --code: #f4f4f1;
  --error: #c2272d; --warning: #a86200; --advice: #1f6f94; --good: #21803f; --plus: #dff3e3; --minus: #fbe3e3; --here: #fff3cd;
  --c0: #2f74d0; --c1: #d98a1b; --c2: #3a9d5d; --c3: #d1495b; --c4: #8e5bd0; --c5: #2097a8; --c6: #a08a20; --c7: #b565a7;
  --c8: #8a8f98; --c9: #7f9a3a; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --card: #1c2024; --ink: #e6e8ea; --soft: #98a1aa; --line: #30363c;
  --code: #14171a; --error: #ff7b7f; --warning: #f0b04d; --advice: #71bfe4; --good: #6fd08c; --plus: #153822; --minus: #43201f;
  --here: #3a3315; --c0: #6ea8f0; --c1: #f0a35e; --c2: #5cc383; --c3: #ef7485; --c4: #b18ae8; --c5: #4cc3d4; --c6: #d3bf5a;
  --c7: #d58fc9; --c8: #9aa0a8; --c9: #b3cf6b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0; overflow-wrap: anywhere; } section { margin: 2rem 0; } section > h2 { margin-bottom: .6rem; }
h2 small { font-weight: 400; font-size: .85rem; color: var(--soft); margin-left: .6rem; }
.soft { color: var(--soft); } .tone { color: var(--tone); } p { overflow-wrap: anywhere; }
.error { --tone: var(--error); } .warning { --tone: var(--warning); } .advice { --tone: var(--advice); } .good { --tone: var(--good); }
.chips { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1.25rem 0; list-style: none; }
.chips li { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .35rem .8rem; font-size: .9rem;
  color: var(--soft); overflow-wrap: anywhere; }
.chips b { color: var(--ink); font-size: 1.05rem; margin-right: .3rem; }
article { background: var(--card); border: 1px solid var(--line); border-left: .3rem solid var(--tone, var(--line)); border-radius: .6rem;
  padding: 1.1rem 1.25rem; margin: 1.25rem 0; overflow-wrap: anywhere; }
article > header { display: flex; flex-wrap: wrap; gap: .25rem .75rem; align-items: baseline; justify-content: space-between; }
.badge { color: var(--tone); font-size: .75rem; font-weight: 700; letter-spacing: .06em; text-transform: uppercase; margin-right: .4rem; }
code, pre { font: .86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem 0; overflow-x: auto; margin: .8rem 0; }
pre span { display: block; padding: 0 .8rem; min-width: max-content; min-height: 1.5em; white-space: pre; }
pre i { display: inline-block; min-width: 3rem; color: var(--soft); font-style: normal; user-select: none; }
.here { background: var(--here); } .plus { background: var(--plus); } .minus { background: var(--minus); }
.message { font-weight: 600; margin: .8rem 0; }
dl { display: grid; grid-template-columns: minmax(min-content, max-content) 1fr; gap: .35rem 1rem; margin: .8rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
summary { cursor: pointer; color: var(--soft); } footer { margin-top: 2.5rem; font-size: .85rem; color: var(--soft); }
ul.lines { list-style: none; padding: 0; margin: .6rem 0 0; } ul.lines li { padding: .45rem 0; border-top: 1px solid var(--line); }
ul.lines .badge { display: inline-block; min-width: 4.6rem; } ul.lines a { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th { text-align: left; color: var(--soft); font-weight: 500; } th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }
td.name, td.shape { font-family: ui-monospace, Menlo, Consolas, monospace; } td.name { color: var(--advice); } td.shape { color: var(--good); }
.count, .real, .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; } tr.best td { font-weight: 600; }
td.bar i { display: block; min-width: 2px; height: .8rem; border-radius: .15rem; background: var(--c2); } td.bar { min-width: 8rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 1.25rem; }
.charts section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; margin: 0; min-width: 0; }
svg { display: block; width: 100%; min-width: 26rem; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); } svg .inside { fill: var(--paper); } svg .line, svg .mark { fill: none; stroke: var(--tone); stroke-width: 1.8; }
svg .dot { fill: var(--tone); fill-opacity: .8; } svg .mark { fill: var(--card); } svg .whisker { fill: none; stroke: var(--ink); stroke-width: 1.5; }
svg .grid, svg .axis { stroke: var(--line); stroke-width: 1; } svg .broken { stroke: var(--error); stroke-dasharray: 3 3; }
.legend { color: var(--soft); font-size: .9rem; margin: .4rem 0 0; } .legend span { margin-right: 1rem; white-space: nowrap; }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: .2em; margin-right: .35em; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; } figure { margin: 0; text-align: center; font-size: .85rem; }
figure img { image-rendering: pixelated; display: block; min-width: 4rem; border: 1px solid var(--line); }
"""

PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def render(document: Document) -> str:
    body = "\n".join(piece for piece in _body(document) if piece)
    return PAGE.format(title=escape(document.name or document.title), style=STYLE, body=body)


def _body(document: Document) -> Iterator[str]:
    title = escape(document.title[:1].upper() + document.title[1:] if document.tone else document.title)
    yield (
        f'<h1 class="{document.tone}"><span class="tone">{title}</span></h1>' if document.tone else f"<h1>{title}</h1>"
    )
    yield f'<p class="soft">{prose(document.subtitle)}</p>' if document.subtitle else ""
    yield from (f'<article class="warning">{prose(note)}</article>' for note in document.notes)
    plots: list[str] = []
    numbers = count(1)
    for part in document.parts:
        if isinstance(part, Plot) and part.show == "always":
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


def _section(part: Part, name: str) -> str:
    body = "".join(_part(part, name))
    if part.show == "verbose" and part.title:
        return f"<details><summary>{escape(part.title)}</summary>{body}</details>"
    if not part.title or isinstance(part, Items):
        return body
    hint = f"<small>{escape(part.hint)}</small>" if part.hint else ""
    return f"<section><h2>{escape(part.title)}{hint}</h2>{body}</section>"


def _part(part: Part, name: str) -> Iterator[str]:
    match part:
        case Text():
            label = f"<b>{escape(part.label)}</b> " if part.label else ""
            text = f"{label}{prose(part.text)}"
            yield f'<article class="{part.tone}">{text}</article>' if part.tone else f"<p>{text}</p>"
        case Code():
            yield _diff(part.text) if part.language == "diff" else f"<pre><span>{escape(part.text)}</span></pre>"
        case Facts(inline=True):
            chips = (f"<li><b>{escape(cell(value))}</b>{escape(key)}</li>" for key, value in part.values.items())
            yield f'<ul class="chips">{"".join(chips)}</ul>'
        case Facts():
            yield _pairs((key, escape(cell(value, "shape") or "-")) for key, value in part.values.items())
        case Table():
            yield from _table(part)
        case Bars():
            yield f'<div class="wide">{bars_svg(part, name)}</div>'
        case Lanes():
            yield f'<div class="wide">{lanes_svg(part, name)}</div>'
        case Plot():
            yield f'<div class="wide">{plot_svg(part, name)}</div>'
        case Picture():
            yield from _picture(part)
        case Card():
            yield from _card(part)
        case Items():
            yield from _items(part)


def _pairs(rows: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in rows) + "</dl>"


def _table(table: Table) -> Iterator[str]:
    largest = {
        at: max((row[at] for row in table.rows if row[at] is not None), default=0.0) or 1.0
        for at, column in enumerate(table.columns)
        if column.kind == "bar"
    }
    heads = "".join(f'<th class="{column.kind}">{escape(column.name)}</th>' for column in table.columns)
    yield f'<div class="wide"><table><tr>{heads}</tr>'
    for number, row in enumerate(table.rows):
        cells = (
            f'<td class="{column.kind}">{_bar(value, largest[at]) if at in largest else _cell(value, column.kind)}</td>'
            for at, (value, column) in enumerate(zip(row, table.columns, strict=True))
        )
        yield f'<tr class="best">{"".join(cells)}</tr>' if number in table.best else f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"
    yield f'<p class="soft">{prose(table.note)}</p>' if table.note else ""


def _cell(value: Any, kind: Any) -> str:
    return escape(cell(value, kind))


def _bar(value: float | None, largest: float) -> str:
    return "" if value is None else f'<i style="width: {100 * value / largest:.1f}%"></i>'


def _picture(picture: Picture) -> Iterator[str]:
    yield '<div class="tiles">'
    for tile in picture.tiles:
        source = base64.b64encode(png(enlarged(tile))).decode()
        caption = escape(tile.caption)
        image = f'<img alt="{caption}" src="data:image/png;base64,{source}">'
        yield f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    yield "</div>"


def _card(card: Card) -> Iterator[str]:
    badge = f'<span class="badge">{escape(card.badge)}</span>' if card.badge else ""
    yield f'<article class="{card.tone}"><header><h2>{badge}{escape(card.heading)}</h2>'
    yield f"<code>{escape(where(card.place))}</code></header>" if card.place else "</header>"
    lines = [
        f"<span{_here(card, number)}><i>{number}</i>{escape(text)}</span>"
        for number, text in lines_around(card.place, card.source, 2)
    ]
    yield f"<pre>{''.join(lines)}</pre>" if lines else ""
    yield f'<p class="message">{prose(card.message)}</p>'
    rows = [*card.rows, *([("fix", card.fix)] if card.fix else []), *card.details]
    yield _pairs((label.capitalize(), prose(text)) for label, text in rows) if rows else ""
    yield f"{_diff(card.diff)}</article>"


def _here(card: Card, number: int) -> str:
    return ' class="here"' if card.place is not None and number == card.place.line else ""


def _diff(diff: str) -> str:
    kinds = {"+": "plus", "-": "minus"}
    lines = (
        (line, "soft" if line.startswith(("---", "+++", "@@")) else kinds.get(line[:1], ""))
        for line in diff.splitlines()
    )
    spans = "".join(f'<span class="{kind}">{escape(line)}</span>' for line, kind in lines)
    return f"<pre>{spans}</pre>" if spans else ""


def _items(items: Items) -> Iterator[str]:
    yield f'<article class="{items.tone}">'
    hint = f"<small>{escape(items.hint)}</small>" if items.hint else ""
    yield f"<h2>{escape(items.title)}{hint}</h2>" if items.title else ""
    yield f'<ul class="lines">{"".join(map(_item, items.items))}</ul></article>'


def _item(item: Item) -> str:
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
