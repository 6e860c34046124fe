"""The report as Markdown, for a pull request's comment or a job's summary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.report.evidence import as_words, where
from trueloop.results.check import CrashExplanation, Verdict, counted
from trueloop.usercode.source import line_of

__all__ = ["document", "fenced", "plain", "span"]

SIGN: Final = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.ADVICE: "💡"}

_CODE_SPAN: Final = re.compile(r"(`[^`\n]+`)")
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def document(verdict: Verdict) -> str:
    worst = verdict.worst()
    title = verdict.headline()
    lines = [f"# {'✅' if worst is None else SIGN[worst]} trueloop: {title}", "", plain(verdict.closing()) + ".", ""]
    if sentence := verdict.outcome.sentence():
        lines += [f"**{plain(sentence)}**", ""]
    lines += [f"- {plain(note)}" for note in verdict.notes] + [""] * bool(verdict.notes)
    if verdict.crash is not None:
        lines += _crash(verdict.crash)
    for finding in verdict.findings:
        lines += _section(finding)
    if verdict.failures:
        lines += [f"**{plain(verdict.broken())}**", "", *fenced("\n".join(verdict.failures), "text"), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(finding: Finding) -> Iterator[str]:
    yield f"## {SIGN[finding.severity]} {finding.severity.word} {finding.code} {plain(finding.name)}"
    yield ""
    yield from _stated(finding.place, finding.source, finding.message)
    if finding.why:
        yield f"- **Why it hurts:** {plain(finding.why)}"
    if finding.fix:
        yield f"- **Fix:** {plain(finding.fix)}"
    if evidence := as_words(finding.evidence):
        yield "- **Evidence:** " + "; ".join(f"{plain(name)}: {span(text)}" for name, text in evidence.items())
    yield f"- **Seen:** first at step {finding.first_step:,}, {counted(finding.count, 'time')}"
    yield ""
    yield from _patch(finding.diff)


def _crash(crash: CrashExplanation) -> Iterator[str]:
    yield "## ❌ What the crash means"
    yield ""
    yield from _stated(crash.place, line_of(crash.place), crash.message)
    yield from (f"- {plain(detail)}" for detail in crash.details)
    if crash.fix:
        yield f"- **Fix:** {plain(crash.fix)}"
    yield ""
    yield from _patch(crash.diff)


def _stated(place: Place | None, source: str, message: str) -> Iterator[str]:
    if place:
        yield span(where(place))
        yield ""
    if source.strip():
        yield from fenced(source.strip(), "python")
        yield ""
    yield f"**{plain(message)}**"
    yield ""


def _patch(diff: str) -> Iterator[str]:
    if diff:
        yield from fenced(diff, "diff")
        yield ""


def plain(text: str) -> str:
    """Markdown means nothing here, except for `code` that a sentence quotes."""
    pieces = _CODE_SPAN.split(" ".join(text.split()))
    return "".join(piece if index % 2 else _SPECIAL.sub(r"\\\1", piece) for index, piece in enumerate(pieces))


def span(text: str) -> str:
    """As code on one line, whatever backticks it holds."""
    flat = " ".join(text.split())
    ticks = _longer_than_any(flat, 1)
    return f"{ticks} {flat} {ticks}" if "`" in flat else f"`{flat}`"


def fenced(text: str, language: str) -> list[str]:
    ticks = _longer_than_any(text, 3)
    return [f"{ticks}{language}", text.rstrip("\n"), ticks]


def _longer_than_any(text: str, least: int) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall(r"`+", text))])
