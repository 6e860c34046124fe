"""The report as a person reads it, in a terminal: coloured and folded to its width there, plain and unfolded in a pipe or a file."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TextIO

from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.report.evidence import as_words, lines_around, where
from trueloop.source import line_of
from trueloop.verdict import CrashExplanation, Verdict, counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["document", "print_finding", "print_verdict"]

STYLE: Final = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.ADVICE: "bold cyan"}
SIGN: Final = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.ADVICE: "·"}
WIDEST: Final = 110
"""Columns that prose is folded to at most: longer lines are tiring to read, however wide the terminal is."""
INDENT: Final = 11
"""Columns of the labels (why, fix, evidence) that stand before the prose."""

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def print_verdict(verdict: Verdict, *, colour: bool = True, to: TextIO | None = None) -> None:
    """The whole report, on stderr unless told otherwise: the script's stdout is its own."""
    console = _console(to or sys.stderr, colour=colour)
    for finding in verdict.findings:
        _finding(console, finding)
    _end(console, verdict)


def print_finding(finding: Finding, *, colour: bool = True) -> None:
    """One line, at once, while the run goes on; the whole story follows at its end."""
    console = _console(sys.stderr, colour=colour)
    _line(console, (f"step {finding.first_step:,}: ", "dim"), *_title(finding), (f" {finding.message}", ""))


def document(verdict: Verdict) -> str:
    """The report as plain text."""
    text = io.StringIO()
    print_verdict(verdict, colour=False, to=text)
    return text.getvalue()


def _console(to: TextIO, *, colour: bool) -> Console:
    from rich.console import Console

    plain = not colour or bool(os.environ.get("NO_COLOR"))
    return Console(
        file=to,
        color_system=None if plain else "auto",
        force_terminal=None if colour else to.isatty(),
        force_jupyter=False,
        highlight=False,
        emoji=False,
        markup=False,
    )


def _end(console: Console, verdict: Verdict) -> None:
    if verdict.crash is not None:
        _crash(console, verdict.crash)
    if sentence := verdict.outcome.sentence():
        _prose(console, sentence, style="bold" if verdict.outcome.exit_code else "")
    for note in verdict.notes:
        _prose(console, note, style="yellow")
    if verdict.failures:
        _prose(console, verdict.broken(), style="bold red")
        for failure in verdict.failures:
            _block(console, failure, lambda _: "dim")
    worst = verdict.worst()
    seen = verdict.watched.anything
    sign, style = ("✓" if seen else "?", "bold green" if seen else "bold yellow") if worst is None else (SIGN[worst], STYLE[worst])
    headline = verdict.headline()
    _prose(console, f"{sign} {headline}", verdict.closing().removeprefix(headline), style=style)


def _finding(console: Console, finding: Finding) -> None:
    _line(console, *_title(finding))
    _source(console, finding.place, finding.source)
    _prose(console, finding.message, indent=2, style="bold")
    for label, text in _labelled(finding):
        _prose(console, text, label=label, indent=2)
    _diff(console, finding.diff)


def _crash(console: Console, crash: CrashExplanation) -> None:
    """What the script's own exception means."""
    place = where(crash.place)
    _line(console, ("✗ what the crash means", "bold red"), *([("  ", ""), (place, "cyan underline")] if place else []))
    _source(console, crash.place, line_of(crash.place))
    _prose(console, crash.message, indent=2, style="bold")
    for index, detail in enumerate(crash.details):
        _prose(console, detail, label=" " if index else "because", indent=2)
    if crash.fix:
        _prose(console, crash.fix, label="fix", indent=2)
    _diff(console, crash.diff)


def _source(console: Console, place: Place | None, source: str) -> None:
    for number, text in lines_around(place, source, 1):
        here = place is not None and number == place.line
        _line(console, (f"  {'❱' if here else ' '} {number:>4} │ ", "red" if here else "dim"), (text, "bold" if here else "dim"))
    _line(console)


def _diff(console: Console, diff: str) -> None:
    if diff:
        _line(console)
        _block(console, diff, _diff_style)
    _line(console)


def _title(finding: Finding) -> list[tuple[str, str]]:
    style = STYLE[finding.severity]
    place = where(finding.place)
    return [
        (f"{SIGN[finding.severity]} {finding.severity.word} {finding.code}", style),
        (f" {finding.name}", "bold"),
        *([("  ", ""), (place, "cyan underline")] if place else []),
    ]


def _labelled(finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.why:
        yield "why", finding.why
    if finding.fix:
        yield "fix", finding.fix
    if evidence := as_words(finding.evidence):
        yield "evidence", " · ".join(f"{name}: {text}" for name, text in evidence.items())
    yield "seen", f"first at step {finding.first_step:,}, {counted(finding.count, 'time')}"


def _diff_style(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "dim"
    return {"+": "green", "-": "red"}.get(line[:1], "")


# -- ink --


def _line(console: Console, *parts: tuple[str, str]) -> None:
    """One line, never folded."""
    from rich.text import Text

    console.print(Text.assemble(*((_clean(text), style) for text, style in parts)), soft_wrap=True)


def _block(console: Console, text: str, style_of: Callable[[str], str]) -> None:
    for line in text.rstrip("\n").split("\n"):
        _line(console, (f"    {line}", style_of(line)))


def _prose(console: Console, *texts: str, label: str = "", indent: int = 0, style: str = "") -> None:
    """A paragraph, folded in a terminal; with a label, the lines hang behind it. The first text has the style, the others have none."""
    from rich.text import Text

    hang = indent + (INDENT if label else 0)
    whole = Text.assemble((_clean(texts[0]), style), *(_clean(text) for text in texts[1:]))
    for index, line in enumerate(_folded(console, whole, hang)):
        lead = f"{'':{indent}}{label:{INDENT if label else 0}}" if index == 0 else " " * hang
        console.print(Text.assemble((lead, "cyan"), line), soft_wrap=True)


def _folded(console: Console, text: Text, hang: int) -> list[Text]:
    if not console.is_terminal:
        return [text]
    return list(text.wrap(console, max(20, min(console.width, WIDEST) - hang)))


def _clean(text: str) -> str:
    """What a script put into a message must not steer the terminal."""
    return text.translate(_CONTROL)
