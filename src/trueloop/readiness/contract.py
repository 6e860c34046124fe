"""What was claimed of the training and tried: every claim of `trueloop probe`, with what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.readiness.record import Record
from trueloop.results.readiness import Statement, Status, stated

__all__ = ["claims", "unneeded"]

SECTION: Final = "contract"
ELSEWHERE: Final = ("evaluation-repeats", "resume-is-exact", "runs-are-deterministic", "loader-order-is-seeded")
"""Claims that the sections on validation, checkpoints and reproducibility ask for."""


@asked(SECTION, "claims", "trueloop probe {run}")
def claims(run: Run) -> Iterator[Statement]:
    record = run.record
    beside = dict(unneeded(record))
    untried = []
    for claim in (each for each in run.claims if each not in ELSEWHERE):
        result = record.value(f"proofs.json#{claim}.result")
        if result in ("holds", "fails") or (result == "unproved" and claim not in beside):
            yield _proof(run, claim)
        elif claim in beside:
            why, address = beside[claim]
            yield stated(SECTION, "note", f"{claim}: does not concern this run, {why}").and_see(address)
        else:
            untried.append(claim)
    if untried and not record.has("proofs.json"):
        # Nothing was: one line, not a page of them.
        yield Statement(
            SECTION, "missing", f"not tried: {', '.join(untried)}", command=run.command(run.probe, claim="").strip()
        )
        return
    for claim in untried:
        yield Statement(SECTION, "missing", f"{claim}: not tried", command=run.command(run.probe, claim=claim))


def _proof(run: Run, claim: str) -> Statement:
    result, measured = (run.record.figure(f"proofs.json#{claim}.{part}") for part in ("result", "measured"))
    if result.value == "unproved":
        text, command = f"{claim}: could not be tested here; {{measured}}", run.command(run.probe, claim=claim)
        return stated(SECTION, "missing", text, measured=measured).advising(command)
    status: Status = "good" if result.value == "holds" else "bad"
    return stated(SECTION, status, f"{claim} {{result}}: {{measured}}", result=result, measured=measured)


def unneeded(record: Record) -> Iterator[tuple[str, tuple[str, str]]]:
    """Claims about what this run does not do -> why, and where that is written."""
    told = {
        "eager-and-compiled-agree": ("facts.json#device.compile", "off", "which is not compiled"),
        "precision-agrees": ("facts.json#device.precision", "fp32", "which computes in full precision"),
        "distributed-equals-single": ("facts.json#device.processes", 1, "which has a single process"),
        "cpu-and-gpu-agree": ("facts.json#device.name", "cpu", "which stays on the CPU"),
        "workers-draw-differently": ("facts.json#data.workers", 0, "which has no workers"),
    }
    for claim, (address, value, why) in told.items():
        if record.value(address) == value:
            yield claim, (why, address)
