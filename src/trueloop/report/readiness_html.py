"""The note as one HTML file that opens offline, beside the files it links to."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from trueloop import __version__
from trueloop.report.html import PAGE, STYLE, prose
from trueloop.report.readiness_markdown import target_of
from trueloop.results.readiness import SECTIONS, Readiness, Statement, condensed

__all__ = ["document"]

TONE: Final = {"good": "good", "note": "advice", "risk": "warning", "missing": "warning", "bad": "error"}
VERDICT: Final = {"ready": "good", "ready with risks": "warning", "not ready": "error"}
OWN_STYLE: Final = """
ul.lines { list-style: none; padding: 0; margin: .6rem 0 0; }
ul.lines li { padding: .45rem 0; border-top: 1px solid var(--line); }
ul.lines .badge { display: inline-block; min-width: 4.6rem; }
ul.lines a { color: var(--soft); } ul.lines code { overflow-wrap: anywhere; }
"""


def document(made: Readiness) -> str:
    title = f"trueloop ready: {made.subject}: {made.verdict}"
    return PAGE.format(title=escape(title), style=STYLE + OWN_STYLE, body="\n".join(_body(made)))


def _body(made: Readiness) -> Iterator[str]:
    yield f'<h1 class="{VERDICT[made.verdict]}"><span class="tone">{escape(made.subject)}: {made.verdict}</span></h1>'
    yield f'<p class="soft">{escape(made.closing())}</p>'
    if reasons := made.reasons():
        yield from _section("What stands in the way", reasons, VERDICT[made.verdict])
    for section in SECTIONS:
        inside = tuple(each for each in made.statements if each.section == section)
        if inside:
            yield from _section(section.capitalize(), inside, _worst(inside))
    yield f"<footer>Written by trueloop {escape(__version__)}. Hover over a link to see how its number was made.</footer>"


def _section(title: str, inside: tuple[Statement, ...], tone: str) -> Iterator[str]:
    yield f'<article class="{tone}"><h2>{escape(title)}</h2><ul class="lines">'
    yield from map(_line, inside)
    yield "</ul></article>"


def _line(statement: Statement) -> str:
    links = ", ".join(_link(link, inside, statement) for link, inside in condensed(statement.links).items())
    evidence = f' <span class="soft">— {links}</span>' if links else ""
    todo = f'<br><span class="soft">→ <code>{escape(statement.command)}</code></span>' if statement.command else ""
    badge = f'<span class="{TONE[statement.status]}"><span class="badge">{statement.status}</span></span>'
    return f"<li>{badge}{prose(statement.text)}{evidence}{todo}</li>"


def _link(link: str, inside: tuple[str, ...], statement: Statement) -> str:
    """Its title says how the numbers were made that lie there."""
    made = [
        f"{each.text} = {each.source}" for each in statement.shown if any(f"[{one}]" in each.source for one in inside)
    ]
    return f'<a href="{escape(target_of(link))}" title="{escape("; ".join(made))}"><code>{escape(link)}</code></a>'


def _worst(inside: tuple[Statement, ...]) -> str:
    statuses = {each.status for each in inside}
    return next((TONE[status] for status in ("bad", "risk", "missing", "good", "note") if status in statuses), "advice")
