"""A sheet as one HTML file that opens offline: pictures are inside it, nothing is fetched."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape
from typing import Final

from trueloop import __version__
from trueloop.report.html import PAGE, STYLE, prose
from trueloop.report.png import enlarged, png
from trueloop.results.document import Bars, Facts, Picture, Sheet, Table, cell

__all__ = ["document"]

MORE: Final = """
main { max-width: 72rem; } h2 { margin: 2rem 0 .6rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; background: var(--card); }
th { text-align: left; color: var(--soft); font-weight: 600; } th, td { padding: .25rem .8rem; border-bottom: 1px solid var(--line); }
td.name { color: var(--advice); font-family: ui-monospace, Menlo, Consolas, monospace; } td.shape { color: var(--good); }
td.count, td.real, th.count, th.real { text-align: right; font-variant-numeric: tabular-nums; }
.bars { display: grid; grid-template-columns: max-content minmax(8rem, 30rem) max-content; gap: .15rem .7rem; font-size: .88rem; }
.bars i { display: block; background: var(--good); height: 1rem; border-radius: .15rem; align-self: center; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; } figure { margin: 0; text-align: center; font-size: .85rem; }
figure img { image-rendering: pixelated; display: block; min-width: 4rem; border: 1px solid var(--line); }
"""


def document(sheet: Sheet) -> str:
    return PAGE.format(title=escape(f"trueloop: {sheet.title}"), style=STYLE + MORE, body="\n".join(_body(sheet)))


def _body(sheet: Sheet) -> Iterator[str]:
    yield f"<h1>{escape(sheet.title)}</h1>"
    yield from (f'<article class="warning">{prose(note)}</article>' for note in sheet.notes)
    for part in sheet.parts:
        if part.title:
            yield f"<h2>{escape(part.title)}</h2>"
        match part:
            case Facts():
                yield (
                    "<dl>"
                    + "".join(
                        f"<dt>{escape(k)}</dt><dd>{escape(cell(v, 'shape') or '-')}</dd>"
                        for k, v in part.values.items()
                    )
                    + "</dl>"
                )
            case Table():
                yield from _table(part)
            case Bars():
                yield from _bars(part)
            case Picture():
                yield from _picture(part)
    yield f"<footer>Written by trueloop {escape(__version__)}.</footer>"


def _table(table: Table) -> Iterator[str]:
    yield '<div class="wide"><table><tr>'
    yield "".join(f'<th class="{column.kind}">{escape(column.name)}</th>' for column in table.columns)
    yield "</tr>"
    for row in table.rows:
        cells = zip(row, table.columns, strict=True)
        yield (
            "<tr>"
            + "".join(f'<td class="{column.kind}">{escape(cell(value, column.kind))}</td>' for value, column in cells)
            + "</tr>"
        )
    yield "</table></div>"
    if table.note:
        yield f'<p class="soft">{prose(table.note)}</p>'


def _bars(bars: Bars) -> Iterator[str]:
    most = max(bars.counts, default=0) or 1
    yield '<div class="bars">'
    for label, count in zip(bars.labels, bars.counts, strict=True):
        yield f'<span>{escape(label)}</span><i style="width: {100 * count / most:.1f}%"></i><span>{count:,}</span>'
    yield "</div>"


def _picture(picture: Picture) -> Iterator[str]:
    yield '<div class="tiles">'
    for tile in picture.tiles:
        source = base64.b64encode(png(enlarged(tile))).decode()
        caption = escape(tile.caption)
        yield f'<figure><img alt="{caption}" src="data:image/png;base64,{source}"><figcaption>{caption}</figcaption></figure>'
    yield "</div>"
