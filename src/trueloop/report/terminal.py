"""The report as a person reads it, in a terminal: coloured and folded to its width there, plain and unfolded in a pipe
or a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TextIO

from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.report.evidence import as_words, lines_around, where
from trueloop.report.ink import block, console_for, line, prose
from trueloop.results.check import CrashExplanation, Verdict, counted
from trueloop.usercode.source import line_of

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["document", "print_finding", "print_verdict"]

STYLE: Final = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.ADVICE: "bold cyan"}
SIGN: Final = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.ADVICE: "·"}


def print_verdict(verdict: Verdict, *, colour: bool = True, to: TextIO | None = None) -> None:
    """The whole report, on stderr unless told otherwise: the script's stdout is its own."""
    console = console_for(to or sys.stderr, colour=colour)
    for finding in verdict.findings:
        _finding(console, finding)
    _end(console, verdict)


def print_finding(finding: Finding, *, colour: bool = True) -> None:
    """One line, at once, while the run goes on; the whole story follows at its end."""
    console = console_for(sys.stderr, colour=colour)
    line(console, (f"step {finding.first_step:,}: ", "dim"), *_title(finding), (f" {finding.message}", ""))


def document(verdict: Verdict) -> str:
    """The report as plain text."""
    text = io.StringIO()
    print_verdict(verdict, colour=False, to=text)
    return text.getvalue()


def _end(console: Console, verdict: Verdict) -> None:
    if verdict.crash is not None:
        _crash(console, verdict.crash)
    if sentence := verdict.outcome.sentence():
        prose(console, sentence, style="bold" if verdict.outcome.exit_code else "")
    for note in verdict.notes:
        prose(console, note, style="yellow")
    if verdict.failures:
        prose(console, verdict.broken(), style="bold red")
        for failure in verdict.failures:
            block(console, failure, lambda _: "dim")
    worst = verdict.worst()
    seen = verdict.watched.anything
    sign, style = (
        ("✓" if seen else "?", "bold green" if seen else "bold yellow")
        if worst is None
        else (SIGN[worst], STYLE[worst])
    )
    headline = verdict.headline()
    prose(console, f"{sign} {headline}", verdict.closing().removeprefix(headline), style=style)


def _finding(console: Console, finding: Finding) -> None:
    line(console, *_title(finding))
    _source(console, finding.place, finding.source)
    prose(console, finding.message, indent=2, style="bold")
    for label, text in _labelled(finding):
        prose(console, text, label=label, indent=2)
    _diff(console, finding.diff)


def _crash(console: Console, crash: CrashExplanation) -> None:
    """What the script's own exception means."""
    place = where(crash.place)
    line(console, ("✗ what the crash means", "bold red"), *([("  ", ""), (place, "cyan underline")] if place else []))
    _source(console, crash.place, line_of(crash.place))
    prose(console, crash.message, indent=2, style="bold")
    for index, detail in enumerate(crash.details):
        prose(console, detail, label=" " if index else "because", indent=2)
    if crash.fix:
        prose(console, crash.fix, label="fix", indent=2)
    _diff(console, crash.diff)


def _source(console: Console, place: Place | None, source: str) -> None:
    for number, text in lines_around(place, source, 1):
        here = place is not None and number == place.line
        line(
            console,
            (f"  {'❱' if here else ' '} {number:>4} │ ", "red" if here else "dim"),
            (text, "bold" if here else "dim"),
        )
    line(console)


def _diff(console: Console, diff: str) -> None:
    if diff:
        line(console)
        block(console, diff, _diff_style)
    line(console)


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
