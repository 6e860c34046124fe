"""The note in the terminal: the verdict, and the lines that keep it from a better one."""

from __future__ import annotations

import io
from typing import Final, TextIO

from trueloop.report.ink import console_for, prose
from trueloop.results.readiness import Readiness

__all__ = ["document", "print_readiness"]

SIGN: Final = {"bad": ("✗", "bold red"), "risk": ("!", "yellow"), "missing": ("?", "yellow")}
TONE: Final = {"ready": ("✓", "bold green"), "ready with risks": ("!", "bold yellow"), "not ready": ("✗", "bold red")}
WIDTH: Final = 21
"""Columns for the sign and a section's name, of which the longest has 17."""


def print_readiness(made: Readiness, *, to: TextIO, colour: bool) -> None:
    console = console_for(to, colour=colour)
    for each in made.reasons():
        sign, style = SIGN[each.status]
        prose(console, each.text, label=f"{sign} {each.section}", width=WIDTH, label_style=style)
        if each.command:
            prose(console, each.command, label=" ", width=WIDTH, style="dim")
    sign, style = TONE[made.verdict]
    prose(console, f"{sign} {made.subject}: {made.verdict}; {made.closing()}", style=style)


def document(made: Readiness) -> str:
    """The same as plain text."""
    text = io.StringIO()
    print_readiness(made, to=text, colour=False)
    return text.getvalue()
