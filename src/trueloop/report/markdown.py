"""A document as Markdown, for a pull request's comment or a job's summary."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from trueloop.report.evidence import where
from trueloop.report.terminal import letters
from trueloop.report.units import quantity
from trueloop.results import document as doc
from trueloop.results.document import cell

__all__ = ["render"]

SIGN: Final = {"good": "✅", "error": "❌", "warning": "⚠️", "advice": "💡", "": "▫️"}

_CODE_SPAN: Final = re.compile(r"(`[^`\n]+`)")
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def render(document: doc.Document) -> str:
    sign = f"{SIGN[document.tone]} " if document.tone else ""
    lines = [f"# {sign}{plain(document.name or document.title)}", ""]
    if document.name and not document.name.lower().endswith(document.title.lower()):
        lines += [f"**{plain(document.title)}**", ""]
    if document.subtitle:
        lines += [plain(document.subtitle), ""]
    lines += [f"{plain('; '.join(document.closing))}.", ""] if document.closing else []
    lines += [f"- {plain(note)}" for note in document.notes] + [""] * bool(document.notes)
    for part in document.parts:
        body = [*_part(part), ""]
        if part.title and len(body) > 1:
            hint = f" ({plain(part.hint)})" if part.hint else ""
            lines += [f"## {plain(part.title)}{hint}", ""]
        lines += body
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def _part(part: doc.Part) -> Iterator[str]:
    match part:
        case doc.Text():
            text = f"{plain(part.label)} {plain(part.text)}".strip()
            yield f"**{text}**" if part.tone else text
        case doc.Code():
            yield from _fenced(part.text, part.language)
        case doc.Facts():
            yield from (f"- {plain(key)}: {plain(cell(value, 'shape') or '-')}" for key, value in part.values.items())
        case doc.Table():
            drawn = [at for at, column in enumerate(part.columns) if column.kind != "bar"]
            rows = [[cell(row[at], part.columns[at].kind) for at in drawn] for row in part.rows]
            yield from _grid([part.columns[at].name for at in drawn], rows, part.best)
            yield from ("", plain(part.note)) if part.note else ()
        case doc.Bars():
            texts = part.texts or tuple(quantity(value) for value in part.values)
            yield from _grid(("", ""), zip(part.labels, texts, strict=True))
        case doc.Lanes():
            segments = ((lane.label, each.name, each.text) for lane in part.lanes for each in lane.segments)
            yield from _grid(("", "", ""), segments) if not part.unit else ()
        case doc.Plot():
            drawn_letters = letters(part)
            yield from _fenced("\n".join(drawn_letters), "text") if drawn_letters else ()
        case doc.Picture():
            yield plain(", ".join(tile.caption or "-" for tile in part.tiles))
        case doc.Card():
            yield from _card(part)
        case doc.Items():
            yield from map(_item, part.items)


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]], best: frozenset[int] = frozenset()) -> Iterator[str]:
    yield f"| {' | '.join(map(plain, heads))} |"
    yield f"|{'---|' * len(heads)}"
    for number, row in enumerate(rows):
        cells = (f"**{plain(each)}**" if number in best and each else plain(each) for each in row)
        yield f"| {' | '.join(cells)} |"


def _card(card: doc.Card) -> Iterator[str]:
    yield f"## {SIGN[card.tone]} {plain(f'{card.badge} {card.heading}'.strip())}"
    yield ""
    yield from (_span(where(card.place)), "") if card.place else ()
    yield from (*_fenced(card.source.strip(), "python"), "") if card.source.strip() else ()
    yield from (f"**{plain(card.message)}**", "")
    rows = (*card.rows, ("fix", card.fix), *card.details)
    yield from (
        f"- **{plain(label).capitalize()}:** {plain(text)}" if label else f"- {plain(text)}"
        for label, text in rows
        if text
    )
    yield from ("", *_fenced(card.diff, "diff")) if card.diff else ()


def _item(item: doc.Item) -> str:
    links = ", ".join(f"[{_span(link.text)}]({link.target})" for link in item.links)
    label = f"{plain(item.label)}: " if item.label else ""
    evidence = f" — {links}" if links else ""
    command = f" → {_span(item.command)}" if item.command else ""
    return f"- {SIGN[item.tone]} {label}{plain(item.text)}{evidence}{command}"


def plain(text: str) -> str:
    """Markdown characters escaped, except in `code` that a sentence quotes."""
    pieces = _CODE_SPAN.split(" ".join(text.split()))
    return "".join(piece if index % 2 else _SPECIAL.sub(r"\\\1", piece) for index, piece in enumerate(pieces))


def _span(text: str) -> str:
    """As code on one line, whatever backticks it holds."""
    flat = " ".join(text.split())
    ticks = _longer_than_any(flat, 1)
    return f"{ticks} {flat} {ticks}" if "`" in flat else f"`{flat}`"


def _fenced(text: str, language: str) -> list[str]:
    ticks = _longer_than_any(text, 3)
    return [f"{ticks}{language}", text.rstrip("\n"), ticks]


def _longer_than_any(text: str, least: int) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall(r"`+", text))])
