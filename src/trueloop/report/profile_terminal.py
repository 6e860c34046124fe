"""A profile as a person reads it: the verdict first, then where a step's time goes, the work, the memory, and what to
change."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, TextIO

from trueloop.report.evidence import as_words, where
from trueloop.report.ink import console_for, line, prose
from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results.check import counted
from trueloop.results.profile import PHASES, Advice, Profile
from trueloop.usercode.source import line_of

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["document", "print_profile"]

LONGEST: Final = 30
"""Letters of the longest bar."""
ROWS: Final = 8
"""Operations and modules that are shown; the JSON report holds all."""
COLOURS: Final = {
    "data": "red",
    "copy": "magenta",
    "forward": "green",
    "backward": "blue",
    "optimizer": "cyan",
    "communication": "magenta",
    "device": "yellow",
    "python": "yellow",
}


def print_profile(profile: Profile, *, colour: bool, to: TextIO) -> None:
    console = console_for(to, colour=colour)
    line(console)
    if profile.steps is None:
        prose(
            console, f"✗ {profile.subject}: no training step was seen, so there is nothing to tell.", style="bold red"
        )
        _closing(console, profile)
        return
    machine = profile.machine
    with_threads = (
        f"{counted(machine.threads, 'thread')} of {counted(machine.cores, 'core')}"
        if machine.device == "cpu"
        else machine.device
    )
    line(console, (f"{profile.subject}", "bold"), (f" on {machine.name}, {with_threads}, torch {machine.torch}", "dim"))
    if profile.bound is not None:
        prose(console, profile.bound.sentence, label="verdict", width=10, style="bold", label_style="bold red")
        if evidence := as_words(profile.bound.evidence):
            prose(
                console,
                " · ".join(f"{name} {text}" for name, text in evidence.items()),
                label="evidence",
                width=10,
                style="dim",
            )
    _phases(console, profile)
    _work(console, profile)
    _operations(console, profile)
    _modules(console, profile)
    _memory(console, profile)
    _compiled(console, profile)
    _advice(console, profile.advice)
    _closing(console, profile)


def document(profile: Profile) -> str:
    """The same as plain text."""
    text = io.StringIO()
    print_profile(profile, colour=False, to=text)
    return text.getvalue()


def _heading(console: Console, text: str, more: str = "") -> None:
    line(console)
    line(console, (text, "bold"), (f"  {more}" if more else "", "dim"))


def _phases(console: Console, profile: Profile) -> None:
    steps = profile.steps
    assert steps is not None
    rate = f", {profile.batch / steps.seconds:,.0f} samples/s" if profile.batch else ""
    told = f"{counted(steps.count, 'step')}: median {seconds_of(steps.median)}, p95 {seconds_of(steps.p95)}{rate}"
    _heading(console, f"A step takes {seconds_of(steps.seconds)}", told)
    longest = max(steps.phases.values())
    for phase, words in PHASES.items():
        seconds = steps.phases.get(phase, 0.0)
        if seconds:
            bar = "█" * max(1, round(LONGEST * seconds / longest))
            line(
                console,
                (f"  {words:<24}{seconds_of(seconds):>10} {steps.share(phase):>5.0%}  ", ""),
                (bar, COLOURS.get(phase, "")),
            )
    for words, count, seconds in (
        ("evaluations", steps.evaluations, steps.evaluating),
        ("saves", steps.saves, steps.saving),
    ):
        if count:
            line(console, (f"  besides: {words} before {counted(count, 'step')}, {seconds_of(seconds)} in all", "dim"))
    if (busy := profile.busy_share) is not None and profile.host is not None:
        line(console, (f"  the device computes in {busy:.0%} of it, {profile.host.launches:,.0f} kernels", ""))
    for hot in profile.lines[:3]:
        line(
            console,
            (f"  {hot.share:>4.0%} ", ""),
            (where(hot.place), "cyan"),
            (f"  {line_of(hot.place).strip()}", "dim"),
        )


def _work(console: Console, profile: Profile) -> None:
    work, ceilings, steps = profile.work, profile.ceilings, profile.steps
    if work is None or ceilings is None or steps is None:
        return
    _heading(console, "Its work", f"{work.source}; ceilings measured on this machine")
    moved = f", {bytes_of(work.bytes)} moved, {work.intensity:.3g} FLOP per byte" if work.bytes else ""
    line(console, (f"  {rate_of(work.flops, 'FLOP')} in {work.operations:,} operations{moved}", ""))
    tops = ", ".join(f"{name} {rate_of(value, 'FLOP/s')}" for name, value in ceilings.flops.items())
    ridge = ceilings.ridge(profile.precision)
    line(
        console,
        (f"  ceilings: {tops}; memory {rate_of(ceilings.bandwidth, 'B/s')}; ridge at {ridge:.3g} FLOP per byte", ""),
    )
    if profile.mfu is not None:
        reached = rate_of(work.flops / steps.seconds, "FLOP/s")
        line(console, (f"  reached: {reached}, {profile.mfu:.1%} of the ceiling for {profile.precision} (MFU)", ""))
    if work.roof:
        line(console, (f"  at the ceilings the step would take {seconds_of(work.roof)}", ""))


def _operations(console: Console, profile: Profile) -> None:
    total = sum(each.seconds for each in profile.operations)
    if not total:
        return
    where_from = "on the device" if profile.busy_share is not None else "by PyTorch's profiler, which itself costs time"
    _heading(console, "Operations", f"time of their own per step, {where_from}")
    for each in profile.operations[:ROWS]:
        rate = f"{rate_of(each.flops / each.seconds, 'FLOP/s'):>14}" if each.flops and each.seconds else " " * 14
        line(
            console,
            (
                f"  {each.name:<38.38}{each.calls:>8,.0f} x {seconds_of(each.seconds):>10} {each.seconds / total:>5.0%}{rate}",
                "",
            ),
        )


def _modules(console: Console, profile: Profile) -> None:
    if not profile.modules:
        return
    _heading(console, "Modules", "forward and backward of their own operations; bytes kept for the backward")
    for each in profile.modules[:ROWS]:
        name = f"{each.name or '(the model)'} {each.kind}"
        kept = f"{bytes_of(each.activations):>12}" if each.activations else ""
        line(console, (f"  {name:<38.38}{seconds_of(each.forward):>10}{seconds_of(each.backward):>11}{kept}", ""))


def _memory(console: Console, profile: Profile) -> None:
    memory = profile.memory
    if memory is None:
        return
    parts = {
        "parameters": memory.parameters,
        "gradients": memory.gradients,
        "optimizer state": memory.optimizer,
        "buffers": memory.buffers,
        "activations": memory.activations,
    }
    peak = "" if memory.measured is None else f"; measured peak {bytes_of(memory.measured)}, {memory.how}"
    _heading(console, "Memory", f"predicted {bytes_of(memory.predicted)}{peak}")
    line(console, ("  " + " · ".join(f"{name} {bytes_of(size)}" for name, size in parts.items() if size), ""))
    more = {
        "workspace and batches": memory.workspace,
        "fragmentation": memory.fragmentation,
        "peak of the process": memory.process,
    }
    line(console, ("  " + " · ".join(f"{name} {bytes_of(size)}" for name, size in more.items() if size), ""))
    if memory.moment:
        line(
            console, (f"  the peak is in {PHASES[memory.moment]}{f', in {memory.module}' if memory.module else ''}", "")
        )


def _compiled(console: Console, profile: Profile) -> None:
    compiled = profile.compiled
    if compiled is None:
        return
    graphs = counted(compiled.graphs, "graph")
    _heading(
        console,
        "Compiler",
        f"{graphs}, {len(compiled.breaks)} breaks, {len(compiled.recompiles)} recompiles, {compiled.seconds:.1f} s",
    )
    for what, notes in (("break", compiled.breaks), ("recompile", compiled.recompiles)):
        for note in notes[:ROWS]:
            line(console, (f"  {what:<10}", "yellow"), (where(note.place) or "?", "cyan"), (f"  {note.what}", "dim"))


def _advice(console: Console, advice: tuple[Advice, ...]) -> None:
    if not advice:
        _heading(console, "What to change", "nothing that would gain more than 5 % was found")
        return
    _heading(console, "What to change", "predicted gains, not added up")
    for number, each in enumerate(advice, 1):
        prose(console, each.what, label=f"  {number}. {each.gain:>5.2f}x", width=13, label_style="bold green")
        if each.place is not None:
            prose(console, f"{where(each.place)}  {line_of(each.place).strip()}", label=" ", width=13, style="cyan")
        prose(console, f"computed from: {each.computed_from}", label=" ", width=13, style="dim")


def _closing(console: Console, profile: Profile) -> None:
    for note in profile.notes:
        prose(console, note, label="note", width=6, label_style="bold yellow")
    for failure in profile.failures:
        prose(console, failure, label="trueloop itself failed", width=24, label_style="bold red")
