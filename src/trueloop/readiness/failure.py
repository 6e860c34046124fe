"""How the run ended, and which failures it would have reported."""

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.statements import Run, question
from trueloop.results.readiness import Figure, Statement, Status, stated

__all__ = ["checked", "ended", "nonfinite"]

SECTION: Final = "failure detection"
NORMAL: Final = ("finished", "early-stopped")
ON_NONFINITE: Final = {
    "stop": "stops the run, which names the layer",
    "skip": "is skipped and reported",
    "rollback": "returns the run to its last checkpoint",
}


@question(SECTION, "how the run ended", "trueloop resume {run}", essential=True)
def ended(run: Run) -> Statement:
    record = run.record
    status, total = record.figure("run.json#status"), record.figure("run.json#total_steps")
    command = f"trueloop resume {run.name}"
    if status.value == "running":
        text = "the run has not ended, or was killed: its status is {status}"
        return stated(SECTION, "missing", text, status=status).advising(command)
    figures = {"step": record.figure("run.json#step"), "total": total, "status": status}
    text = "the run ended at step {step:,} of {total:,}: {status}"
    if status.value in NORMAL:
        return stated(SECTION, "good", text, **figures)
    if record.value("run.json#message"):
        figures["message"] = record.figure("run.json#message")
        text += "; {message}"
    severity: Status = "risk" if status.value == "signal" else "bad"
    return stated(SECTION, severity, text, **figures).advising(command)


@question(SECTION, "what happens to a NaN or Inf gradient", "trueloop train {recipe}")
def nonfinite(run: Run) -> Iterator[Statement]:
    record = run.record
    chosen = record.figure("run.json#recipe.on_nonfinite")
    text = f"a NaN or Inf gradient {ON_NONFINITE.get(chosen.value, chosen.value)}"
    yield stated(SECTION, "good", text).and_see(*chosen.addresses)
    skipped = record.value("metrics.jsonl?train#skipped")
    if skipped:
        times = Figure(max(skipped), "largest([metrics.jsonl?train#skipped])")
        risk = stated(SECTION, "risk", "{times:.0f} steps were skipped for it", times=times)
        yield risk.advising(f"trueloop probe {run.name} first-nonfinite")


@question(SECTION, "which rules checked the run", "trueloop recheck {run}")
def checked(run: Run) -> Statement:
    record = run.record
    rules, steps = record.figure("report.json#watched.rules"), record.figure("report.json#watched.steps")
    if record.value("report.json#watched.failures"):
        count = record.count("report.json#watched.failures")
        return stated(SECTION, "risk", "{count} rules failed with an error of their own", count=count)
    return stated(SECTION, "good", "{rules} rules checked {steps:,} steps during the run", rules=rules, steps=steps)
