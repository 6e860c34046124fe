"""The findings of the rules: open, and allowed by the user."""

from collections.abc import Iterator, Mapping
from typing import Final

from trueloop.readiness.statements import Run, question
from trueloop.results.readiness import Statement, Status, stated

__all__ = ["allowed", "open_findings"]

SECTION: Final = "findings"
STATUS: Final[Mapping[str, Status]] = {"error": "bad", "warning": "risk", "advice": "note"}


@question(SECTION, "findings of the rules", "trueloop recheck {run}")
def open_findings(run: Run) -> Iterator[Statement]:
    record = run.record
    found = record.figure("report.json#findings").value
    if not found:
        yield stated(SECTION, "good", "{count} open findings", count=record.count("report.json#findings"))
    for number, finding in enumerate(found):
        parts = {name: record.figure(f"report.json#findings.{number}.{name}") for name in ("code", "name", "message")}
        made = stated(SECTION, STATUS[finding["severity"]], "{code} {name}: {message}", **parts)
        yield made.advising(f"trueloop explain {finding['code']}")


@question(SECTION, "allowed findings", "trueloop recheck {run}")
def allowed(run: Run) -> Statement:
    count = run.record.figure("report.json#watched.allowed")
    return stated(SECTION, "note", "{count} findings are allowed by a comment or the settings", count=count)
