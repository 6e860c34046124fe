"""The result of `bench RUN --generate` as a document: the fastest form, and a table per batch size."""

from collections.abc import Iterator
from typing import Final

from trueloop.report.units import seconds_of
from trueloop.results.check import counted
from trueloop.results.document import Axis, Document, Part, Plot, Series, Table, columns
from trueloop.results.generation_bench import GenerationBench, GenerationPace

__all__ = ["document"]

HEADS: Final = ("tokens/s", "first token p50", "per token p50", "p95", "speed", "texts")


def document(bench: GenerationBench) -> Document:
    machine = bench.machine
    where = f"{machine['processor']}, {counted(machine['cores'], 'core')}, {machine['device']}"
    context = f"context {bench.context:,}" if bench.context is not None else "no known limit of the context"
    how = f"{bench.prompt:,} tokens of prompt, {bench.tokens:,} generated, {context}; forms in turns"
    return Document(
        title=f"{bench.run}: {_headline(bench)}",
        parts=tuple(_parts(bench)),
        notes=bench.notes,
        subtitle=f"{where}, torch {machine['versions']['torch']}. {how}, {bench.seconds:g} s each after a warm-up.",
        name=f"trueloop bench --generate: {bench.run}",
    )


def _headline(bench: GenerationBench) -> str:
    best = max(bench.paces, key=lambda pace: pace.per_second)
    return f"at most {best.per_second:,.0f} tokens/s, with {counted(best.batch, 'text')} at once ({best.form})"


def _parts(bench: GenerationBench) -> Iterator[Part]:
    batches = list(dict.fromkeys(pace.batch for pace in bench.paces))
    for batch in batches:
        own = [pace for pace in bench.paces if pace.batch == batch]
        fastest = max(own, key=lambda pace: pace.per_second)
        rows = tuple(_row(pace, own[0]) for pace in own)
        best = frozenset([own.index(fastest)]) if len(own) > 1 else frozenset[int]()
        yield Table(f"Batch size {batch}", columns("form", *HEADS), rows, best=best)
    if len(batches) > 1:
        yield _plot(bench, batches)


def _row(pace: GenerationPace, first: GenerationPace) -> tuple[str, ...]:
    times = (seconds_of(value) for value in (pace.first, pace.p50, pace.p95))
    speed = f"{pace.per_second / first.per_second:.2f}x"
    return pace.form, f"{pace.per_second:,.0f}", *times, speed, f"{pace.texts:,}"


def _plot(bench: GenerationBench, batches: list[int]) -> Plot:
    forms = list(dict.fromkeys(pace.form for pace in bench.paces))
    series = tuple(
        Series(form, tuple((p.batch, p.per_second) for p in bench.paces if p.form == form), at, dots=True)
        for at, form in enumerate(forms)
    )
    x, y = Axis("batch size", "log", ticks=tuple(batches)), Axis("tokens/s", zero=True)
    return Plot("Tokens per second over the batch size", series, x, y, show="page")
