"""Speed, waiting and memory, from the run's own rows of metrics."""

from typing import Final

from trueloop.readiness.statements import Run, question
from trueloop.results.readiness import Statement, middle_of, stated

__all__ = ["memory", "speed", "waits"]

SECTION: Final = "performance"
ROWS: Final = "trueloop train {recipe} --set log_every=10"
DATA_BOUND: Final = 0.3  # share of the time spent waiting for data: a perfect loader would save that much


@question(SECTION, "training speed", ROWS)
def speed(run: Run) -> Statement:
    rate = middle_of(run.record.figure("metrics.jsonl?train#samples_per_second"))
    return stated(SECTION, "note", "{rate:,.0f} samples per second (median of its rows)", rate=rate)


@question(SECTION, "waiting for data", ROWS)
def waits(run: Run) -> Statement:
    share = middle_of(run.record.figure("metrics.jsonl?train#data_wait"))
    text = "data-bound: it waits for data {share:.1%} of the time (median of its rows)"
    if share.value > DATA_BOUND:
        made = stated(SECTION, "risk", text, share=share)
        return made.advising(f"trueloop train {run.recipe} --set workers=4")
    return stated(SECTION, "good", f"not {text}", share=share)


@question(SECTION, "memory", ROWS)
def memory(run: Run) -> Statement:
    record = run.record
    line = (record.lines("metrics.jsonl", "train") or [0])[-1]
    used = record.number(f"metrics.jsonl:{line}#memory_mb")
    total = record.number("facts.json#device.memory") / 2**20
    text = "{used:,.0f} MB at most, of {total:,.0f} MB on {device}"
    return stated(SECTION, "note", text, used=used, total=total, device=record.figure("facts.json#device.name"))
