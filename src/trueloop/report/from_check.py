"""The result of `check` as a document: a card per finding, what a crash means, and what was watched."""

from collections.abc import Iterator
from typing import Any, Final

from trueloop.finding import Finding, Severity, rule_page
from trueloop.report.evidence import evidence_line
from trueloop.results.check import CrashExplanation, Verdict, counted
from trueloop.results.document import Card, Code, Document, Facts, Part, Text, Tone
from trueloop.usercode.source import line_of

__all__ = ["document", "finding_card"]

TONE: Final[dict[Severity, Tone]] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "advice"}


def document(verdict: Verdict) -> Document:
    headline, worst, seen = verdict.headline(), verdict.worst(), bool(verdict.watched.anything or verdict.summary)
    learning = verdict.watched.learning
    seen = seen and verdict.outcome.reason != "exception" and not (learning is not None and learning.stuck)
    tone: Tone = ("good" if seen else "warning") if worst is None else TONE[worst]
    return Document(
        title=headline[:1].upper() + headline[1:],
        parts=tuple(_parts(verdict)),
        notes=verdict.notes,
        subtitle=f"in `{verdict.watched.script}`",
        tone=tone,
        closing=verdict.closing_lines(),
        lead=False,
        name=f"trueloop: {headline}",
    )


def _parts(verdict: Verdict) -> Iterator[Part]:
    yield Facts("", _numbers(verdict), inline=True, show="page")
    yield from map(finding_card, verdict.findings)
    if verdict.crash is not None:
        yield _crash_card(verdict.crash)
    if sentence := verdict.outcome.sentence():
        yield Text(sentence, tone="error" if verdict.outcome.exit_code else "advice")
    if verdict.failures:
        yield Text(verdict.broken(), tone="error")
        yield from map(Code, verdict.failures)
    if verdict.not_applicable:
        title = f"{counted(len(verdict.not_applicable), 'rule')} did not apply"
        reasons = {codes: because for because, codes in verdict.reasons().items()}
        yield Facts(title, reasons, show="verbose")


def _numbers(verdict: Verdict) -> dict[str, Any]:
    watched = verdict.watched
    facts: dict[str, Any] = {"steps": watched.steps, "batches": watched.batches, "epochs": watched.epochs}
    facts["rules applied"] = watched.rules
    if verdict.allowed:
        facts["allowed"] = verdict.allowed
    if verdict.known:
        facts["known"] = verdict.known
    if verdict.overhead is not None:
        facts["spent watching"] = f"{verdict.overhead:.1%}"
    if watched.models:
        facts["models" if len(watched.models) > 1 else "model"] = ", ".join(watched.models)
    return facts


def finding_card(finding: Finding) -> Card:
    details = {"why": finding.why, "evidence": evidence_line(finding.evidence)}
    details["seen"] = f"first at step {finding.first_step:,}, {counted(finding.count, 'time')}"
    return Card(
        heading=f"{finding.code} {finding.name}",
        message=finding.message,
        tone=TONE[finding.severity],
        badge=finding.severity.word,
        place=finding.place,
        source=finding.source,
        fix=finding.fix,
        more=f"trueloop explain {finding.code}",
        address=rule_page(finding.code),
        details=tuple((label, text) for label, text in details.items() if text),
        diff=finding.diff,
    )


def _crash_card(crash: CrashExplanation) -> Card:
    """Shown in full: without it, nothing else can be fixed."""
    return Card(
        heading="what the crash means",
        message=crash.message,
        tone="error",
        place=crash.place,
        source=line_of(crash.place),
        fix=crash.fix,
        rows=tuple(("" if index else "because", text) for index, text in enumerate(crash.details)),
        diff=crash.diff,
    )
