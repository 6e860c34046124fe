"""Findings as GitHub workflow commands: each becomes an annotation on its line of the pull request."""

from typing import Final

from trueloop.event import Place
from trueloop.finding import Finding, Severity
from trueloop.results.check import CrashExplanation, Verdict
from trueloop.results.proof import Proofs
from trueloop.usercode.notebook import notebook_of
from trueloop.usercode.source import shown_path, shown_place

__all__ = ["render"]

LEVEL: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "notice"}


def render(result: Verdict | Proofs) -> str:
    verdict = result.verdict() if isinstance(result, Proofs) else result
    lines = [_annotation(finding) for finding in verdict.findings]
    lines += [_crash(verdict.crash)] if verdict.crash is not None else []
    lines += [f"::error title=trueloop itself failed::{_data(verdict.broken())}"] if verdict.failures else []
    lines += [
        _data(line) for line in (verdict.outcome.sentence(), *verdict.notes, f"trueloop: {verdict.closing()}") if line
    ]
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding) -> str:
    message = f"{finding.message}\nFix: {finding.fix}"
    return _command(LEVEL[finding.severity], finding.place, f"{finding.code} {finding.name}", message)


def _crash(crash: CrashExplanation) -> str:
    message = "\n".join([crash.message, *crash.details, *([f"Fix: {crash.fix}"] if crash.fix else [])])
    return _command("error", crash.place, "what the crash means", message)


def _command(level: str, place: Place | None, title: str, message: str) -> str:
    at = {"file": shown_path(place.path), "line": str(place.line)} if place else {}
    if place and (notebook := notebook_of(place.path)):
        at, message = {"file": shown_path(notebook)}, f"{shown_place(place)}: {message}"
    values = {key: _data(text).replace(":", "%3A").replace(",", "%2C") for key, text in {**at, "title": title}.items()}
    properties = ",".join(f"{key}={text}" for key, text in values.items())
    return f"::{level} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
