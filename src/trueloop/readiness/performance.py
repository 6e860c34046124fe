"""What the run spends its time on, as far as its own rows say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trueloop.readiness.question import Run, asked
from trueloop.results.readiness import Statement, middle_of, stated

__all__ = ["memory", "speed", "waits"]

SECTION: Final = "performance"
ROWS: Final = "trueloop train {recipe} --set log_every=10"
STARVED: Final = 0.3
"""Share of the time spent waiting for data beyond which the data set the pace: below it, a perfect loader would save
less than that."""


@asked(SECTION, "how fast it trains", ROWS)
def speed(run: Run) -> Statement:
    rate = middle_of(run.record.figure("metrics.jsonl?train#samples_per_second"))
    return stated(SECTION, "note", "{rate:,.0f} samples a second (the median of its rows)", rate=rate)


@asked(SECTION, "whether it waits for data", ROWS)
def waits(run: Run) -> Iterator[Statement]:
    share = middle_of(run.record.figure("metrics.jsonl?train#data_wait"))
    if share.value > STARVED:
        text = "data-bound: it waits for data {share:.1%} of the time (the median of its rows)"
        yield stated(SECTION, "risk", text, share=share).advising(f"trueloop train {run.recipe} --set workers=4")
    else:
        yield stated(
            SECTION,
            "good",
            "not data-bound: it waits for data {share:.1%} of the time (the median of its rows)",
            share=share,
        )


@asked(SECTION, "how much memory it takes", ROWS)
def memory(run: Run) -> Statement:
    record = run.record
    line = (record.lines("metrics.jsonl", "train") or [0])[-1]
    used = record.number(f"metrics.jsonl:{line}#memory_mb")
    there = record.number("facts.json#device.memory") / 2**20
    text = "{used:,.0f} MB at most, of {there:,.0f} MB that {device} has"
    return stated(SECTION, "note", text, used=used, there=there, device=record.figure("facts.json#device.name"))
