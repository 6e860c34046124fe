"""The result of `plan` as a document: every way to spread the training, the recommended one and why, larger scales."""

from collections.abc import Iterator
from typing import Any, Final

from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results.check import counted
from trueloop.results.document import Column, Document, Item, Items, Part, Table, Text, columns
from trueloop.results.plan import Figure, Plan, Row, Scaled

__all__ = ["document"]

MEMORY: Final = ("micro-batches", "weights", "grads", "optimizer", "activations", "work", "total", "fits")
SPEED: Final = ("sent", "bus time", "exposed", "step", "speed", "efficiency")
NOTE: Final = (
    "Bytes are of one GPU; micro-batches: how many, of how many samples; sent: per step; bus time: of what is sent; "
    "exposed: the part not hidden behind compute; speed: relative to one GPU; ~ depends on an assumption."
)
NEVER: Final = "Possible on paper; `trueloop train` does not run them, so none of them is recommended."
MOST: Final = 5  # of them that are shown


def document(plan: Plan) -> Document:
    facts = plan.facts
    far = f", {bytes_of(plan.between)}/s between nodes of {plan.node}" if plan.gpus > plan.node else ""
    gpus = f"{counted(plan.gpus, 'GPU')} of {bytes_of(plan.memory)}, {bytes_of(plan.bandwidth)}/s{far}"
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
    if plan.unsupported:
        yield _unsupported(plan)
    chosen = plan.recommended
    if chosen is None:
        yield Text("no way fits", tone="error", title="Recommendation")
    else:
        yield Text(chosen.way.name, label="recommended", tone="good", title="Recommendation")
        yield Items("", tuple(_command(plan, number) for number in plan.best))
    yield Items("", tuple(Item("why", reason) for reason in plan.reasons))
    if len(plan.scaling) > 1:
        yield _scaling(plan)
    yield Items("", tuple(Item("assumed", text, "warning") for text in plan.assumed))


def _command(plan: Plan, number: int) -> Item:
    row = plan.rows[number]
    facts = f"{bytes_of(row.memory.total)}, ~{seconds_of(row.step.value)} per step"
    return Item("run" if number == plan.chosen else "or", f"{plan.commands[number]}  ({row.way.name}: {facts})")


def _unsupported(plan: Plan) -> Table:
    """The fastest; all are in the JSON."""
    rows = [(each, row) for each in plan.unsupported if (row := each.row) is not None]
    rows.sort(key=lambda each: (not each[1].fits, each[1].step.value))
    shown = [
        (
            row.way.name,
            bytes_of(row.memory.total),
            "yes" if row.fits else "NO",
            f"~{seconds_of(row.step.value)}",
            no.why,
        )
        for no, row in rows[:MOST]
    ]
    left = f" {len(rows) - MOST} slower ones are in --format json." if len(rows) > MOST else ""
    heads = (*columns("way", "total", "fits", "step"), Column("why not"))
    return Table("Not supported by train", heads, tuple(shown), f"{NEVER}{left}")


def _numbers(row: Row) -> Iterator[str]:
    yield f"{row.accumulate:,} x {row.micro:,}"
    for part in row.memory.parts:
        yield _marked(part, bytes_of(part.value))
    yield bytes_of(row.memory.total)
    yield "yes" if row.fits else "NO"
    yield bytes_of(row.bus.value)
    yield seconds_of(row.wire_seconds.value)
    yield _marked(row.exposed, seconds_of(row.exposed.value))
    yield _marked(row.step, seconds_of(row.step.value))
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
