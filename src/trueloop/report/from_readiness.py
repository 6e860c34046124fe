"""The result of `ready` as a document: every statement ends with links to its evidence, or what would produce it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from trueloop.results.document import Document, Item, Items, Link, Text, Tone
from trueloop.results.readiness import SECTIONS, Readiness, Statement, condensed

__all__ = ["document"]

TONE: Final[dict[str, Tone]] = {"good": "good", "note": "", "risk": "warning", "missing": "warning", "bad": "error"}
VERDICT: Final[dict[str, Tone]] = {"ready": "good", "ready with risks": "warning", "not ready": "error"}
_LINE: Final = re.compile(r"^([^#?]+?)(?::(\d+))?(?:\?[^#]*)?(?:#.*)?$")


def document(made: Readiness) -> Document:
    sections = [
        Items(section.capitalize(), tuple(map(_item, inside)), _worst(inside), show="page")
        for section in SECTIONS
        if (inside := [each for each in made.statements if each.section == section])
    ]
    reasons = made.reasons()
    tone = VERDICT[made.verdict]
    named = tuple(replace(_item(each), badge=each.section) for each in reasons)
    hover = Text("Hover over a link of the HTML page to see how its number was computed.", show="page")
    return Document(
        title=f"{made.subject}: {made.verdict}",
        parts=(*([Items("What to resolve first", named, tone)] if reasons else []), *sections, hover),
        tone=tone,
        closing=(f"{made.subject}: {made.verdict}; {made.closing()}",),
        lead=False,
        name=f"trueloop ready: {made.subject}: {made.verdict}",
    )


def _item(statement: Statement) -> Item:
    links = tuple(_links(statement))
    return Item("", statement.text, TONE[statement.status], links, statement.command, statement.status)


def _links(statement: Statement) -> Iterator[Link]:
    """Each with how the numbers at that address were computed."""
    for link, inside in condensed(statement.links).items():
        made = [
            f"{each.text} = {each.source}"
            for each in statement.shown
            if any(f"[{address}]" in each.source for address in inside)
        ]
        yield Link(link, _target(link), "; ".join(made))


def _target(link: str) -> str:
    """The file of an address, as a relative link; a line by its number."""
    found = _LINE.match(link)
    assert found is not None, link
    path = found[1].replace(" ", "%20").replace("(", "%28").replace(")", "%29")
    return f"{path}#L{found[2]}" if found[2] else path


def _worst(inside: list[Statement]) -> Tone:
    statuses = {each.status for each in inside}
    return next((TONE[status] for status in ("bad", "risk", "missing", "good") if status in statuses), "")
