"""What the rules have found: open, and allowed by the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.results.readiness import Statement, Status, stated

__all__ = ["allowed", "open_ones"]

SECTION: Final = "findings"
STATUS: Final[Mapping[str, Status]] = {"error": "bad", "warning": "risk", "advice": "note"}


@asked(SECTION, "what the rules have found", "trueloop judge {run}")
def open_ones(run: Run) -> Iterator[Statement]:
    record = run.record
    found = record.figure("report.json#findings").value
    if not found:
        yield stated(SECTION, "good", "{count} findings are open", count=record.count("report.json#findings"))
    for number, finding in enumerate(found):
        parts = {name: record.figure(f"report.json#findings.{number}.{name}") for name in ("code", "name", "message")}
        status = STATUS[finding["severity"]]
        command = f"trueloop explain {finding['code']}"
        yield stated(SECTION, status, "{code} {name}: {message}", **parts).advising(command)


@asked(SECTION, "what is allowed", "trueloop judge {run}")
def allowed(run: Run) -> Statement:
    count = run.record.figure("report.json#watched.allowed")
    return stated(SECTION, "note", "{count} findings are allowed by a comment or the settings", count=count)
