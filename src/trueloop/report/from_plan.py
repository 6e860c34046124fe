"""The result of `plan` as a document: every way to spread the training, the recommended one and why, larger scales."""

from collections.abc import Iterator
from typing import Any, Final

from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results.check import counted
from trueloop.results.document import Document, Item, Items, Part, Table, Text, columns
from trueloop.results.plan import Figure, Plan, Row, Scaled

__all__ = ["document"]

MEMORY: Final = ("weights", "grads", "optimizer", "activations", "work", "total", "fits")
SPEED: Final = ("sent", "bus time", "exposed", "speed", "efficiency")
NOTE: Final = (
    "Bytes are of one GPU; sent: per step; bus time: of what is sent; exposed: the part not hidden behind compute; "
    "speed: relative to one GPU; ~ depends on an assumption."
)


def document(plan: Plan) -> Document:
    facts = plan.facts
    gpus = f"{counted(plan.gpus, 'GPU')} of {bytes_of(plan.memory)}, {bytes_of(plan.bandwidth)}/s"
    frozen = f", {facts.learning:,} of them trainable" if facts.learning != facts.numbers else ""
    blocks = counted(facts.blocks, "repeated block") if facts.blocks else "no repeated blocks"
    split = f", in {plan.accumulate} micro-batches" if plan.accumulate > 1 else ""
    optimizer = f", {plan.optimizer}" if plan.optimizer else ""
    model = f"{facts.name}: {facts.numbers:,} parameters{frozen}, {blocks}, {rate_of(facts.flops, 'FLOP')} per sample"
    return Document(
        title=f"{plan.subject or facts.name} on {gpus}: estimated, nothing is trained",
        parts=tuple(_parts(plan)),
        subtitle=f"{model}; batch {plan.batch:,}{split}, {plan.precision}{optimizer}",
        name=f"trueloop plan: {plan.subject or facts.name}",
    )


def _parts(plan: Plan) -> Iterator[Part]:
    best = frozenset() if plan.chosen is None else frozenset({plan.chosen})
    rows = tuple((row.way.name, *_numbers(row)) for row in plan.rows)
    if rows:
        yield Table("", columns("way", *MEMORY, *SPEED), rows, NOTE, best)
    if plan.refused:
        yield Items("Not possible", tuple(Item(each.way.name, each.why) for each in plan.refused))
    chosen = plan.recommended
    if chosen is None:
        yield Text("no way fits", tone="error", title="Recommendation")
    else:
        how = f"  ({chosen.way.how})" if chosen.way.how else ""
        yield Text(f"{chosen.way.name}{how}", label="recommended", tone="good", title="Recommendation")
    yield Items("", tuple(Item("why", reason) for reason in plan.reasons))
    if len(plan.scaling) > 1:
        yield _scaling(plan)
    yield Items("", tuple(Item("assumed", text, "warning") for text in plan.assumed))


def _numbers(row: Row) -> Iterator[str]:
    for part in row.memory.parts:
        yield _marked(part, bytes_of(part.value))
    yield bytes_of(row.memory.total)
    yield "yes" if row.fits else "NO"
    yield bytes_of(row.bus.value)
    yield seconds_of(row.wire_seconds.value)
    yield _marked(row.exposed, seconds_of(row.exposed.value))
    yield _marked(row.speedup, f"{row.speedup.value:.3g}x")
    yield _marked(row.efficiency, f"{row.efficiency.value:.0%}")


def _marked(figure: Figure, text: str) -> str:
    return f"~{text}" if figure.basis == "assumed" else text


def _scaling(plan: Plan) -> Table:
    heads = columns("GPUs", "batch", "memory of one GPU", "bus time", "speed", "efficiency")
    here = frozenset(number for number, each in enumerate(plan.scaling) if each.gpus == plan.gpus)
    hint = "the same way, and the same share of the batch on each GPU"
    return Table("More GPUs", heads, tuple(map(_scaled, plan.scaling)), best=here, hint=hint)


def _scaled(each: Scaled) -> tuple[Any, ...]:
    sizes = f"{each.gpus:,}", f"{each.batch:,}", bytes_of(each.memory), seconds_of(each.wire_seconds)
    return *sizes, f"~{each.speedup:.4g}x", f"~{each.efficiency:.0%}"
