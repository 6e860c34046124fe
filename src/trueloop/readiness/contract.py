"""The results of `trueloop probe`: every claim, with what was measured."""

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.record import Record
from trueloop.readiness.statements import Run, question, untested
from trueloop.results.readiness import Statement, Status, stated

__all__ = ["claims"]

SECTION: Final = "contract"
ELSEWHERE: Final = ("evaluation-repeats", "resume-is-exact", "runs-are-deterministic", "loader-order-is-seeded")
"""Claims in the sections on validation, checkpoints and reproducibility."""
NOT_APPLICABLE: Final = {
    "eager-and-compiled-agree": ("facts.json#device.compile", "off", "it is not compiled"),
    "precision-agrees": ("facts.json#device.precision", "fp32", "it computes in full precision"),
    "distributed-equals-single": ("facts.json#device.processes", 1, "it has a single process"),
    "cpu-and-gpu-agree": ("facts.json#device.name", "cpu", "it runs on the CPU"),
    "workers-draw-differently": ("facts.json#data.workers", 0, "it has no workers"),
}  # Claim -> (address, value, why): it does not apply to a run with this value


@question(SECTION, "claims", "trueloop probe {run}")
def claims(run: Run) -> Iterator[Statement]:
    record = run.record
    not_tested = []
    for claim in (each for each in run.claims if each not in ELSEWHERE):
        result = record.value(f"proofs.json#{claim}.result")
        applies = _applies(record, claim)
        if result in ("holds", "fails") or (result == "unproved" and applies):
            yield _result(run, claim)
        elif applies:
            not_tested.append(claim)
        else:
            address, _, why = NOT_APPLICABLE[claim]
            yield stated(SECTION, "note", f"{claim}: not applicable to this run, {why}").and_see(address)
    if not_tested and not record.has("proofs.json"):  # one line for all
        command = run.command(run.probe, claim="").strip()
        yield Statement(SECTION, "missing", f"not tested: {', '.join(not_tested)}", command=command)
        return
    for claim in not_tested:
        yield Statement(SECTION, "missing", f"{claim}: not tested", command=run.command(run.probe, claim=claim))


def _result(run: Run, claim: str) -> Statement:
    result, measured = (run.record.figure(f"proofs.json#{claim}.{part}") for part in ("result", "measured"))
    if result.value == "unproved":
        return untested(run, SECTION, claim, measured)
    status: Status = "good" if result.value == "holds" else "bad"
    return stated(SECTION, status, f"{claim} {{result}}: {{measured}}", result=result, measured=measured)


def _applies(record: Record, claim: str) -> bool:
    address, value, _ = NOT_APPLICABLE.get(claim, ("", None, ""))
    return not address or record.value(address) != value
