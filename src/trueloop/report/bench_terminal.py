"""A bench as a person reads it: a table for each batch, with the medians as bars, and the machine that they are of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TextIO

from trueloop.report.units import bytes_of, seconds_of
from trueloop.results.bench import Bench, Form
from trueloop.results.check import counted

__all__ = ["lines_of", "print_bench"]

BAR: Final = 24
"""Letters of the slowest form's bar."""


def print_bench(told: Bench, to: TextIO) -> None:
    for line in lines_of(told):
        print(line, file=to)


def lines_of(told: Bench) -> Iterator[str]:
    here = told.machine
    threads = counted(here["threads"], "thread") if here["threads"] else "threads as each runtime likes"
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    yield f"{here['processor']}, {here['system']}, {counted(here['cores'], 'core')}, {threads}; {versions}"
    yield from told.how
    width = max(len(form.name) for form in told.forms)
    for batch in told.batches:
        yield ""
        yield f"  batch {batch:<{width}}      p50       p95       p99   samples/s   speed   median, shorter is faster"
        for form in told.forms:
            yield from _row(told, form, batch, width + 6)
    yield ""
    for form in told.forms:
        if form.runtime:
            size = f", {bytes_of(form.bytes)}" if form.bytes else ""
            yield f"  {form.name:<{width}}  {form.runtime}{size}; {form.opened:.1f} s to load and answer once"
    for form in told.forms:
        if form.failed:
            yield f"  {form.name:<{width}}  FAILED: {form.failed}"
    for note in told.notes:
        yield f"  note: {note}"


def _row(told: Bench, form: Form, batch: int, width: int) -> Iterator[str]:
    pace, times = form.pace(batch), told.times(form, batch)
    if pace is None or times is None:
        yield f"  {form.name:<{width}}   failed"
        return
    slowest = max(other.p50 for other in (each.pace(batch) for each in told.forms) if other is not None)
    numbers = "".join(f"{seconds_of(value):>10}" for value in (pace.p50, pace.p95, pace.p99))
    bar = "█" * max(1, round(BAR * pace.p50 / slowest))
    yield f"  {form.name:<{width}}{numbers}{pace.per_second:>12,.0f}{times:>7.2f}x   {bar}"
