"""A bench as one HTML file that opens offline: the fastest form, a table for each batch, latency and throughput as
pictures."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from trueloop import __version__
from trueloop.report.bench_charts import latency_chart, throughput_chart
from trueloop.report.html import PAGE, STYLE, TABLES, prose
from trueloop.report.svg import CHARTS
from trueloop.report.units import bytes_of, seconds_of
from trueloop.results.bench import Bench, Form
from trueloop.results.check import counted

__all__ = ["document"]

MORE: Final = """
tr.won td { font-weight: 600; } caption { caption-side: bottom; text-align: left; color: var(--soft); padding-top: .4rem; }
"""


def document(told: Bench) -> str:
    title = escape(f"trueloop bench: {_headline(told)}")
    return PAGE.format(title=title, style=STYLE + TABLES + CHARTS + MORE, body="\n".join(_body(told)))


def _headline(told: Bench) -> str:
    """What was measured, of the smallest and the largest batch: who is lowest by a hair is no winner."""
    found = []
    for batch in dict.fromkeys((min(told.batches), max(told.batches))):
        best = _best(told, batch)
        pace = best and best.pace(batch)
        if best and pace:
            found.append(f"{best.name}, {seconds_of(pace.p50)} for {counted(batch, 'sample')}")
    return f"Lowest median: {'; '.join(found)}" if found else "No form could be measured"


def _best(told: Bench, batch: int) -> Form | None:
    paced = [(pace.p50, number) for number, form in enumerate(told.forms) if (pace := form.pace(batch)) is not None]
    return told.forms[min(paced)[1]] if paced else None


def _body(told: Bench) -> Iterator[str]:
    here = told.machine
    yield f"<h1>{escape(_headline(told))}</h1>"
    threads = counted(here["threads"], "thread") if here["threads"] else "threads as each runtime likes"
    where = f"{here['processor']}, {here['system']}, {counted(here['cores'], 'core')}, {threads}"
    device = here.get("device", "cpu")
    yield f'<p class="soft">{escape(where if device == "cpu" else f"{device}; {where}")}</p>'
    if any(form.paces for form in told.forms):
        yield f"<section><h2>Latency: the median, on to the 95th and 99th percentile</h2>{latency_chart(told)}</section>"
        picture = throughput_chart(told)
        yield f"<section><h2>Throughput over the size of the batch</h2>{picture}</section>" if picture else ""
    yield f"<section><h2>Numbers</h2>{_table(told)}</section>"
    yield f"<section><h2>Forms</h2>{_forms(told)}</section>"
    for form in told.forms:
        if form.failed:
            yield f'<article class="error"><b>{escape(form.name)}</b> was not measured: {prose(form.failed)}</article>'
    yield from (f'<article class="advice">{prose(note)}</article>' for note in told.notes)
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    yield f"<footer>{escape(versions)}. Written by trueloop {escape(__version__)}.</footer>"


def _table(told: Bench) -> str:
    heads = ("form", "batch", "p50", "p95", "p99", "samples/s", "speed", "calls")
    rows = [
        _line(_cells(told, form, batch), "td", won=form is _best(told, batch))
        for batch in told.batches
        for form in told.forms
    ]
    caption = " ".join(f"{escape(sentence)}." for sentence in told.how)
    return f"<table><caption>{caption}</caption>{_line(heads, 'th')}{''.join(rows)}</table>"


def _cells(told: Bench, form: Form, batch: int) -> tuple[str, ...]:
    pace, times = form.pace(batch), told.times(form, batch)
    if pace is None or times is None:
        return form.name, str(batch), "failed", "", "", "", "", ""
    moments = (seconds_of(value) for value in (pace.p50, pace.p95, pace.p99))
    return form.name, str(batch), *moments, f"{pace.per_second:,.0f}", f"{times:.2f}x", f"{pace.calls:,}"


def _forms(told: Bench) -> str:
    rows = "".join(
        _line((form.name, form.runtime, bytes_of(form.bytes) if form.bytes else "", f"{form.opened:.1f} s"), "td")
        for form in told.forms
        if form.runtime
    )
    return f"<table>{_line(('form', 'runtime', 'file', 'to load and answer once'), 'th')}{rows}</table>"


def _line(cells: tuple[str, ...], tag: str, *, won: bool = False) -> str:
    made = "".join(f"<{tag}{' class=number' if at else ''}>{escape(cell)}</{tag}>" for at, cell in enumerate(cells))
    return f"<tr{' class=won' if won else ''}>{made}</tr>"
