"""How the run ended, and what would have been noticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.results.readiness import Figure, Statement, Status, stated

__all__ = ["ended", "nonfinite", "watched"]

SECTION: Final = "failure detection"
MEANT: Final = ("finished", "early-stopped")
"""How a run ends that went as it was meant to."""
FACED: Final = {
    "stop": "stops the run, which names the layer",
    "skip": "is left out, and said",
    "rollback": "sends the run back to its last checkpoint",
}
"""on_nonfinite -> what happens to a gradient that is no number."""


@asked(SECTION, "how the run ended", "trueloop resume {run}", essential=True)
def ended(run: Run) -> Statement:
    record = run.record
    status, total = record.figure("run.json#status"), record.figure("run.json#total_steps")
    if status.value == "running":
        text = "the run has not ended, or was killed before it could say so: {status}"
        return stated(SECTION, "missing", text, status=status).advising(f"trueloop resume {run.name}")
    step = record.figure("run.json#step")
    text = "the run ended at step {step:,} of {total:,}: {status}"
    if status.value in MEANT:
        return stated(SECTION, "good", text, step=step, total=total, status=status)
    said = {"message": record.figure("run.json#message")} if record.value("run.json#message") else {}
    text += "; {message}" if said else ""
    command = f"trueloop resume {run.name}"
    grave: Status = "risk" if status.value == "signal" else "bad"
    return stated(SECTION, grave, text, step=step, total=total, status=status, **said).advising(command)


@asked(SECTION, "what happens to a gradient that is no number", "trueloop train {recipe}")
def nonfinite(run: Run) -> Iterator[Statement]:
    record = run.record
    chosen = record.figure("run.json#recipe.on_nonfinite")
    yield stated(SECTION, "good", f"a gradient that is no number {FACED.get(chosen.value, chosen.value)}").and_see(
        *chosen.addresses
    )
    skipped = record.value("metrics.jsonl?train#skipped")
    if skipped:
        times = Figure(max(skipped), "largest([metrics.jsonl?train#skipped])")
        yield stated(SECTION, "risk", "{times:.0f} steps were skipped for that", times=times).advising(
            f"trueloop probe {run.name} first-nonfinite"
        )


@asked(SECTION, "which rules watched the run", "trueloop judge {run}")
def watched(run: Run) -> Statement:
    record = run.record
    rules, steps = record.figure("report.json#watched.rules"), record.figure("report.json#watched.steps")
    failures = record.value("report.json#watched.failures") or []
    if failures:
        count = record.count("report.json#watched.failures")
        return stated(SECTION, "risk", "{count} rules broke while they watched", count=count)
    return stated(SECTION, "good", "{rules} rules judged {steps:,} steps as they were taken", rules=rules, steps=steps)
