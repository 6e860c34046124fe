"""The report as one JSON document, for programs. Version 1 is a promise: keys may be added, never renamed or
removed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from trueloop.event import Place
from trueloop.finding import Finding
from trueloop.report.evidence import as_json
from trueloop.results.check import CrashExplanation, Verdict
from trueloop.usercode.source import shown_path

__all__ = ["document"]

VERSION: Final = 1
"""Raised when a key changes its meaning or goes away."""


def document(verdict: Verdict) -> str:
    whole = {
        "version": VERSION,
        "findings": [_finding(finding) for finding in verdict.findings],
        "watched": {
            **asdict(verdict.watched),
            "allowed": verdict.allowed,
            "failures": verdict.failures,
            "notes": verdict.notes,
        },
        "not_judged": [{"code": unjudged.code, "because": unjudged.because} for unjudged in verdict.not_judged],
        "overhead": verdict.overhead,
        "script": asdict(verdict.outcome),
        "crash": _crash(verdict.crash),
    }
    return json.dumps(as_json(whole), indent=2, allow_nan=False) + "\n"


def _crash(crash: CrashExplanation | None) -> dict[str, Any] | None:
    """What the script's own exception means."""
    if crash is None:
        return None
    return {
        "kind": crash.kind,
        **_at(crash.place),
        "message": crash.message,
        "details": crash.details,
        "fix": crash.fix,
        "diff": crash.diff,
    }


def _at(place: Place | None) -> dict[str, Any]:
    return {"path": shown_path(place.path) if place else None, "line": place.line if place else None}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.word,
        **_at(finding.place),
        "source": finding.source,
        "message": finding.message,
        "evidence": finding.evidence,
        "fix": finding.fix,
        "diff": finding.diff,
        "first_step": finding.first_step,
        "count": finding.count,
    }
