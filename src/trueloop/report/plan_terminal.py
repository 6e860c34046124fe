"""A plan as a person reads it: the ways as a table, the one to go and why, the same on paper up to 1,024 GPUs, what is
assumed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, TextIO

from trueloop.report.ink import console_for, line, prose
from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results.check import counted
from trueloop.results.plan import Figure, Plan, Row

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["document", "print_plan"]

MEMORY: Final = ("parameters", "gradients", "optimizer", "activations", "workspace")
HEAD: Final = {
    "parameters": "weights",
    "gradients": "grads",
    "optimizer": "optimizer",
    "activations": "activ.",
    "workspace": "work",
}
SIGNS: Final = {"computed": "", "measured": "", "assumed": "~"}
"""Before a number: what is assumed shows it."""


def document(plan: Plan) -> str:
    """As plain text."""
    text = io.StringIO()
    print_plan(plan, colour=False, to=text)
    return text.getvalue()


def print_plan(plan: Plan, *, colour: bool, to: TextIO) -> None:
    console = console_for(to, colour=colour)
    _heading(console, plan)
    _table(console, plan)
    _reasons(console, plan)
    _scaling(console, plan)
    line(console)
    for text in plan.assumed:
        prose(console, text, label="assumed:", width=10, style="dim", label_style="yellow")


def _heading(console: Console, plan: Plan) -> None:
    facts = plan.facts
    line(console)
    gpus = f"{counted(plan.gpus, 'GPU')} of {bytes_of(plan.memory)}, {bytes_of(plan.bandwidth)}/s"
    line(console, (plan.subject or facts.name, "bold"), (f" on {gpus}, reckoned on paper: nothing is trained", "dim"))
    frozen = f", {facts.learning:,} of them learn" if facts.learning != facts.numbers else ""
    blocks = counted(facts.blocks, "repeated block") if facts.blocks else "no repeated blocks"
    split = f", in {plan.accumulate} micro-batches" if plan.accumulate > 1 else ""
    optimizer = f", {plan.optimizer}" if plan.optimizer else ""
    line(
        console,
        (f"{facts.name}: {facts.numbers:,} parameters{frozen}, {blocks}, {rate_of(facts.flops, 'FLOP')} a sample", ""),
    )
    line(console, (f"batch {plan.batch:,}{split}, {plan.precision}{optimizer}", ""))


def _table(console: Console, plan: Plan) -> None:
    width = max(len(way.name) for way in (*(row.way for row in plan.rows), *(each.way for each in plan.refused)))
    memory = "".join(f"{HEAD[part]:>10}" for part in MEMORY)
    line(console)
    line(
        console,
        (
            f"     {'way':<{width}}{memory}{'a GPU':>10}{'fits':>6}{'sent':>10}{'takes':>9}{'shown':>9}{'speed':>10}{'effic.':>8}",
            "dim",
        ),
    )
    for number, row in enumerate(plan.rows):
        won = number == plan.chosen
        style = "bold green" if won else "" if row.fits else "red"
        line(console, ("  -> " if won else "     ", "bold green"), (f"{row.way.name:<{width}}{_numbers(row)}", style))
    for refused in plan.refused:
        line(console, (f"     {refused.way.name:<{width}}  {refused.why}", "dim"))
    line(
        console,
        (
            "     bytes of one GPU; sent: in a step; takes: that, on the bus; shown: of it, not hidden; speed: over one GPU; ~ is assumed",
            "dim",
        ),
    )


def _numbers(row: Row) -> str:
    parts = "".join(
        f"{_marked(getattr(row.memory, part), bytes_of(getattr(row.memory, part).value)):>10}" for part in MEMORY
    )
    fits = "yes" if row.fits else "NO"
    bus = f"{bytes_of(row.bus.value):>10}{seconds_of(row.wire_seconds.value):>9}"
    shown = f"{_marked(row.exposed, seconds_of(row.exposed.value)):>9}"
    speed = f"{_marked(row.speedup, f'{row.speedup.value:.3g}x'):>10}{_marked(row.efficiency, f'{row.efficiency.value:.0%}'):>8}"
    return f"{parts}{bytes_of(row.memory.total):>10}{fits:>6}{bus}{shown}{speed}"


def _marked(figure: Figure, text: str) -> str:
    return f"{SIGNS[figure.basis]}{text}"


def _reasons(console: Console, plan: Plan) -> None:
    line(console)
    best = plan.recommended
    if best is None:
        line(console, ("no way fits", "bold red"))
    else:
        line(
            console,
            ("recommended  ", "bold green"),
            (best.way.name, "bold"),
            (f"  ({best.way.how})" if best.way.how else "", "dim"),
        )
    for reason in plan.reasons:
        prose(console, reason, label="  why", width=7)


def _scaling(console: Console, plan: Plan) -> None:
    if len(plan.scaling) < 2:
        return
    line(console)
    line(
        console,
        ("On paper", "bold"),
        ("  the same way and the same share of a batch on each, with so many GPUs", "dim"),
    )
    line(console, (f"  {'GPUs':>6}{'batch':>9}{'a GPU':>10}{'takes':>9}{'speed':>10}{'effic.':>8}", "dim"))
    for each in plan.scaling:
        told = f"  {each.gpus:>6,}{each.batch:>9,}{bytes_of(each.memory):>10}{seconds_of(each.wire_seconds):>9}"
        line(
            console,
            (
                f"{told}{f'~{each.speedup:.4g}x':>10}{f'~{each.efficiency:.0%}':>8}",
                "bold" if each.gpus == plan.gpus else "",
            ),
        )
