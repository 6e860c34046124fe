"""The result of `bench FILE.py:NAME` as a document: the winner per size, a table, and a picture over sizes."""

from collections.abc import Iterator
from typing import Final

from trueloop.report.units import rate_of, seconds_of
from trueloop.results.document import Axis, Document, Part, Plot, Series, Table, columns
from trueloop.results.op_bench import OpBench, OpPace, OpSize

__all__ = ["document"]

HEADS: Final = ("p50", "medians", "memory", "of ceiling", "compute", "of ceiling", "speed", "calls")


def document(bench: OpBench) -> Document:
    subtitle = (
        f"{bench.machine}, {bench.device}; {bench.seconds:g} s for each function and size in {bench.rounds} turns"
    )
    ceilings = f"measured ceilings: {rate_of(bench.bandwidth, 'B/s')}, {rate_of(bench.peak, 'FLOP/s')} in {bench.kind}"
    return Document(
        title=_headline(bench),
        parts=tuple(_parts(bench)),
        notes=tuple(_notes(bench)),
        subtitle=f"{subtitle}; {ceilings}.",
        name=f"trueloop bench: {bench.name}",
    )


def _headline(bench: OpBench) -> str:
    if not bench.against:
        return f"{bench.name}: {seconds_of(bench.sizes[-1].paces[0].p50)} for {bench.sizes[-1].inputs}"
    wins = [each for each in bench.sizes if each.winner == bench.name]
    equal = [each for each in bench.sizes if each.winner == "equal"]
    more = f", equal at {len(equal)}" if equal else ""
    return f"{bench.name} is faster than {bench.against} at {len(wins)} of {len(bench.sizes)} sizes{more}"


def _notes(bench: OpBench) -> Iterator[str]:
    wrong = [each.inputs for each in bench.sizes if not each.agrees]
    if wrong:
        typed = f"`trueloop probe {bench.name} --against {bench.against}` shows how"
        yield f"The results differ from those of {bench.against} for {wrong[0]}: {typed}."
    if any(each.rate(pace) > bench.bandwidth for each in bench.sizes for pace in each.paces):
        yield "Above 100 % of the memory's ceiling: the tensors fit into a cache."
    yield "Memory counts the tensors of inputs and results once: what an operation moves at least."


def _parts(bench: OpBench) -> Iterator[Part]:
    for cache in dict.fromkeys(each.cache for each in bench.sizes):
        sizes = [each for each in bench.sizes if each.cache == cache]
        named = f" ({cache} L2 cache)" if bench.device != "cpu" else ""
        for each in sizes:
            rows = tuple(_row(bench, each, pace) for pace in each.paces)
            best = frozenset(at for at, pace in enumerate(each.paces) if pace.name == each.winner)
            title = f"{each.inputs}{named}: {each.winner if each.winner == 'equal' else f'{each.winner} wins'}"
            yield Table(
                title if bench.against else f"{each.inputs}{named}", columns("function", *HEADS), rows, best=best
            )
        names = [pace.name for pace in sizes[0].paces]
        series = tuple(
            Series(name, tuple((float(each.size), each.paces[at].p50) for each in sizes), color=at, dots=True)
            for at, name in enumerate(names)
        )
        if len(sizes) > 1:
            yield Plot(f"Time over sizes{named}", series, Axis("N", "log"), Axis("p50", "log", "s"), show="page")
            rates = tuple(
                Series(
                    name, tuple((float(each.size), each.rate(each.paces[at])) for each in sizes), color=at, dots=True
                )
                for at, name in enumerate(names)
            )
            yield Plot(f"Memory over sizes{named}", rates, Axis("N", "log"), Axis("B/s", "log", "B/s"), show="page")


def _row(bench: OpBench, each: OpSize, pace: OpPace) -> tuple[object, ...]:
    compute = each.flops / pace.p50
    return (
        pace.name,
        seconds_of(pace.p50),
        f"{seconds_of(pace.lowest)} .. {seconds_of(pace.highest)}",
        rate_of(each.rate(pace), "B/s"),
        f"{each.rate(pace) / bench.bandwidth:.0%}",
        rate_of(compute, "FLOP/s") if each.flops else "",
        f"{compute / bench.peak:.0%}" if each.flops and bench.peak else "",
        f"{each.paces[-1].p50 / pace.p50:.2f}x",
        f"{pace.calls:,}",
    )
