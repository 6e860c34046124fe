"""The result of `bench` as a document: the fastest forms, latency and throughput as charts, a table per batch size."""

from collections.abc import Iterator
from typing import Final

from trueloop.report.units import bytes_of, seconds_of
from trueloop.results.bench import Bench, Form
from trueloop.results.check import counted
from trueloop.results.document import Axis, Bars, Column, Document, Item, Items, Part, Plot, Series, Table, columns

__all__ = ["document"]

COLUMNS: Final = (*columns("form", "p50", "p95", "p99", "samples/s", "speed", "calls"), Column("median", "bar"))


def document(bench: Bench) -> Document:
    machine = bench.machine
    threads = counted(machine["threads"], "thread") if machine["threads"] else "each runtime's default threads"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    device = machine.get("device", "cpu")
    where = f"{machine['processor']}, {machine['system']}, {counted(machine['cores'], 'core')}, {threads}; {versions}"
    return Document(
        title=_headline(bench),
        parts=tuple(_parts(bench)),
        notes=bench.notes,
        subtitle=". ".join([where if device == "cpu" else f"{device}; {where}", *bench.how]) + ".",
        name=f"trueloop bench: {_headline(bench)}",
    )


def _headline(bench: Bench) -> str:
    """For the smallest and the largest batch."""
    found = []
    for batch in dict.fromkeys((min(bench.batches), max(bench.batches))):
        best = _best(bench, batch)
        pace = best and best.pace(batch)
        if best and pace:
            found.append(f"{best.name}, {seconds_of(pace.p50)} for {counted(batch, 'sample')}")
    return f"Lowest median: {'; '.join(found)}" if found else "No form could be measured"


def _best(bench: Bench, batch: int) -> Form | None:
    paced = [(pace.p50, number) for number, form in enumerate(bench.forms) if (pace := form.pace(batch)) is not None]
    return bench.forms[min(paced)[1]] if paced else None


def _parts(bench: Bench) -> Iterator[Part]:
    for batch in bench.batches:
        yield from _latency(bench, batch)
    for batch in bench.batches:
        yield _table(bench, batch)
    yield from _throughput(bench)
    forms = tuple(
        (form.name, form.runtime, bytes_of(form.bytes) if form.bytes else "", f"{form.opened:.1f} s")
        for form in bench.forms
        if form.runtime
    )
    heads = (Column("form"), Column("runtime"), Column("file", "number"), Column("load and first answer", "number"))
    yield Table("Forms", heads, forms)
    failed = tuple(Item(form.name, f"not measured: {form.failed}", "error") for form in bench.forms if form.failed)
    if failed:
        yield Items("", failed, "error")


def _table(bench: Bench, batch: int) -> Table:
    best = _best(bench, batch)
    rows = tuple(_row(bench, form, batch) for form in bench.forms)
    marked = frozenset(number for number, form in enumerate(bench.forms) if form is best)
    return Table(f"Batch size {batch}", COLUMNS, rows, best=marked, hint="a shorter median is faster")


def _row(bench: Bench, form: Form, batch: int) -> tuple[object, ...]:
    pace, times = form.pace(batch), bench.times(form, batch)
    if pace is None or times is None:
        return form.name, "failed", "", "", "", "", "", None
    moments = (seconds_of(value) for value in (pace.p50, pace.p95, pace.p99))
    return form.name, *moments, f"{pace.per_second:,.0f}", f"{times:.2f}x", f"{pace.calls:,}", pace.p50


def _latency(bench: Bench, batch: int) -> Iterator[Bars]:
    measured = [(at, form.name, pace) for at, form in enumerate(bench.forms) if (pace := form.pace(batch)) is not None]
    if measured:
        yield Bars(
            f"Latency of batch size {batch}",
            tuple(name for _, name, _ in measured),
            tuple(pace.p50 for _, _, pace in measured),
            tuple(seconds_of(pace.p50) for _, _, pace in measured),
            tuple((pace.p95, pace.p99) for _, _, pace in measured),
            tuple(at for at, _, _ in measured),
            hint="the median, then the 95th and 99th percentile",
            show="page",
        )


def _throughput(bench: Bench) -> Iterator[Plot]:
    """Needs two batch sizes."""
    batches = sorted({pace.batch for form in bench.forms for pace in form.paces})
    if len(batches) < 2:
        return
    series = []
    for at, form in enumerate(bench.forms):
        paces = sorted(form.paces, key=lambda pace: pace.batch)
        titles = tuple(f"{form.name}, batch {pace.batch}: {pace.per_second:,.0f} samples/s" for pace in paces)
        points = tuple((pace.batch, pace.per_second) for pace in paces)
        series.append(Series(form.name, points, at, dots=True, titles=titles))
    x, y = Axis("batch size", "log", ticks=tuple(batches)), Axis("samples/s", zero=True)
    yield Plot("Throughput over the batch size", tuple(series), x, y, show="page")
