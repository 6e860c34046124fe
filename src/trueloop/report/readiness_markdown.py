"""The note as Markdown: training-readiness.md. Every line ends with links to its evidence, or with what would produce
it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trueloop.report.markdown import plain, span
from trueloop.results.readiness import SECTIONS, Readiness, Statement, condensed

__all__ = ["document", "target_of"]

SIGN: Final = {"good": "✅", "note": "▫️", "risk": "⚠️", "missing": "❔", "bad": "❌"}
TONE: Final = {"ready": "✅", "ready with risks": "⚠️", "not ready": "❌"}
_LINE: Final = re.compile(r"^([^#?]+?)(?::(\d+))?(?:\?[^#]*)?(?:#.*)?$")


def document(made: Readiness) -> str:
    lines = [f"# {TONE[made.verdict]} {plain(made.subject)}: {made.verdict}", "", f"{made.closing()}.", ""]
    if reasons := made.reasons():
        lines += ["## What stands in the way", "", *map(_line, reasons), ""]
    for section in SECTIONS:
        inside = [each for each in made.statements if each.section == section]
        if inside:
            lines += [f"## {section.capitalize()}", "", *map(_line, inside), ""]
    lines += [
        f"{SIGN['good']} good, {SIGN['note']} a plain fact, {SIGN['risk']} a risk, {SIGN['missing']} missing, {SIGN['bad']} bad."
    ]
    return "\n".join(lines) + "\n"


def _line(statement: Statement) -> str:
    return f"- {SIGN[statement.status]} {plain(statement.text)}{''.join(_evidence(statement))}{_todo(statement)}"


def _evidence(statement: Statement) -> Iterator[str]:
    if statement.links:
        yield " — " + ", ".join(f"[{span(link)}]({target_of(link)})" for link in condensed(statement.links))


def _todo(statement: Statement) -> str:
    return f" → {span(statement.command)}" if statement.command else ""


def target_of(link: str) -> str:
    """The file that an address lies in, as a relative link; a line by its number."""
    found = _LINE.match(link)
    assert found is not None, link
    path = found[1].replace(" ", "%20").replace("(", "%28").replace(")", "%29")
    return f"{path}#L{found[2]}" if found[2] else path
