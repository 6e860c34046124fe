"""The result of `profile` as a document: what bounds a step, where its time and memory go, and what to change."""

from collections.abc import Iterator
from itertools import accumulate
from math import sqrt
from typing import Any, Final

from trueloop.report.evidence import as_words, where
from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results import document as doc
from trueloop.results.check import counted
from trueloop.results.profile import PHASES, Compiled, Memory, Profile, Steps
from trueloop.usercode.source import line_of

__all__ = ["document"]

ROWS: Final = 10  # operations and modules that are shown; the JSON report has all
COPIED: Final = 0.01  # Share of the memory traffic from which a copy is shown
NO_ADVICE: Final = "Nothing that would gain more than 5 % was found."
COLORS: Final = dict(zip((*PHASES, "kernels"), (3, 7, 2, 0, 5, 4, 6, 1, 8, 9, 0), strict=True))
"""Phase -> its color in the palette."""


def document(profile: Profile) -> doc.Document:
    machine, bound = profile.machine, profile.bound
    threads = f"{counted(machine.threads, 'thread')} of {counted(machine.cores, 'core')}"
    device = threads if machine.device == "cpu" else machine.device
    headline = bound.sentence.split(":")[0] if bound else "nothing to report: no training step was seen"
    return doc.Document(
        title=f"{profile.subject}: {headline}",
        parts=tuple(_parts(profile)),
        notes=profile.notes,
        subtitle=f"on {machine.name}, {device}, torch {machine.torch}",
        name=f"trueloop profile: {profile.subject}",
    )


def _parts(profile: Profile) -> Iterator[doc.Part]:
    if profile.steps is not None:
        yield from _verdict(profile)
        yield from _step(profile, profile.steps)
        yield from _work(profile, profile.steps)
        yield from _operations(profile)
        yield from _modules(profile)
        yield from _copies(profile)
        yield from _memory(profile.memory) if profile.memory else ()
        yield from _compiler(profile.compiled) if profile.compiled else ()
        yield from _advice(profile)
    yield from (doc.Code(failure, title="trueloop itself failed") for failure in profile.failures)


def _verdict(profile: Profile) -> Iterator[doc.Part]:
    if profile.bound is not None:
        yield doc.Text(profile.bound.sentence, label="verdict", tone="warning")
        if evidence := as_words(profile.bound.evidence):
            yield doc.Facts("", evidence, inline=True)


def _step(profile: Profile, steps: Steps) -> Iterator[doc.Part]:
    rate = f", {profile.batch / steps.seconds:,.0f} samples/s" if profile.batch and steps.seconds else ""
    hint = f"{counted(steps.count, 'step')}: median {seconds_of(steps.median)}, p95 {seconds_of(steps.p95)}{rate}"
    phases = [(phase, words, steps.phases[phase]) for phase, words in PHASES.items() if steps.phases.get(phase)]
    ends = list(accumulate(seconds for _, _, seconds in phases))
    segments = tuple(
        doc.Segment(words, end - seconds, end, f"{seconds_of(seconds)}, {steps.share(phase):.0%}", COLORS[phase])
        for (phase, words, seconds), end in zip(phases, ends, strict=True)
    )
    yield doc.Lanes(f"A step takes {seconds_of(steps.seconds)}", (doc.Lane("", segments),), hint=hint)
    more: dict[str, str] = {}
    for words, count, seconds in (
        ("evaluations", steps.evaluations, steps.evaluating),
        ("saves", steps.saves, steps.saving),
    ):
        if count:
            more[f"additional {words}"] = f"before {counted(count, 'step')}, {seconds_of(seconds)} in total"
    if (busy := profile.busy_share) is not None and profile.host is not None:
        more["device"] = f"the device computes in {busy:.0%} of the step, {profile.host.launches:,.0f} kernels"
    if more:
        yield doc.Facts("", more)
    if profile.lines:
        rows = tuple(
            (f"{line.share:.0%}", where(line.place), line_of(line.place).strip(), PHASES[line.phase])
            for line in profile.lines[:ROWS]
        )
        heads = (doc.Column("seen", "number"), doc.Column("line", "name"), doc.Column("source"), doc.Column("phase"))
        yield doc.Table("Lines", heads, rows, hint="share of the sampled steps in which the line was running")
    if profile.timeline:
        yield _timeline(profile)


def _timeline(profile: Profile) -> doc.Lanes:
    words = {str(phase): text for phase, text in PHASES.items()}
    lanes: dict[str, list[doc.Segment]] = {"host": [], "device": [], "copy": []}
    for each in profile.timeline:
        name, color, length = words.get(each.name, each.name), COLORS.get(each.name, 8), each.end - each.start
        lanes[each.lane].append(doc.Segment(name, each.start, each.end, seconds_of(length), color))
    shown = tuple(doc.Lane(name, tuple(segments)) for name, segments in lanes.items() if segments)
    return doc.Lanes("Timeline of a few steps", shown, unit="s", show="page")


def _work(profile: Profile, steps: Steps) -> Iterator[doc.Part]:
    work, ceilings = profile.work, profile.ceilings
    if work is None or ceilings is None:
        return
    facts = {"per step": f"{rate_of(work.flops, 'FLOP')} in {work.operations:,} operations"}
    if work.bytes:
        facts["memory traffic"] = f"{bytes_of(work.bytes)}, {work.intensity:.3g} FLOP per byte"
    facts["ceilings"] = ", ".join(f"{name} {rate_of(value, 'FLOP/s')}" for name, value in ceilings.flops.items())
    ridge = ceilings.ridge(profile.precision)
    facts["memory ceiling"] = f"{rate_of(ceilings.bandwidth, 'B/s')}; ridge at {ridge:.3g} FLOP per byte"
    facts["a small operation"] = seconds_of(ceilings.launch)
    if profile.mfu is not None:
        reached = rate_of(work.flops / steps.seconds, "FLOP/s")
        facts["reached"] = f"{reached}, {profile.mfu:.1%} of the ceiling for {profile.precision} (MFU)"
    if work.roof:
        facts["at the ceilings"] = f"the step would take {seconds_of(work.roof)}"
    yield doc.Facts("Work", facts, hint=f"{work.source}; ceilings measured on this machine")
    yield from _roofline(profile, steps)


def _roofline(profile: Profile, steps: Steps) -> Iterator[doc.Plot]:
    """FLOPs per byte across, FLOPs per second up: the machine's roof, the operations, and the step."""
    work, ceilings = profile.work, profile.ceilings
    if work is None or ceilings is None or not ceilings.bandwidth or not work.bytes or not work.flops:
        return
    dots = [
        (each.name, each.flops / each.bytes, each.flops / each.seconds, each.seconds)
        for each in profile.operations
        if each.flops and each.bytes and each.seconds
    ]
    step = (work.intensity, work.flops / steps.seconds)
    low, high = min([0.1, step[0], *(dot[1] for dot in dots)]), max([1000.0, step[0], *(dot[1] for dot in dots)])
    roofs = [
        doc.Series(f"{name} {rate_of(top, 'FLOP/s')}", _roof(low, high, ceilings.bandwidth, top), 8)
        for name, top in ceilings.flops.items()
    ]
    longest = max((dot[3] for dot in dots), default=0.0) or 1.0
    measured = doc.Series(
        "operations",
        tuple(dot[1:3] for dot in dots),
        0,
        line=False,
        dots=True,
        titles=tuple(f"{name}: {x:.3g} FLOP per byte, {rate_of(y, 'FLOP/s')}" for name, x, y, _ in dots),
        sizes=tuple(3 + 7 * sqrt(dot[3] / longest) for dot in dots),
    )
    title = f"the step: {step[0]:.3g} FLOP per byte, {rate_of(step[1], 'FLOP/s')}"
    own = doc.Series("the step", (step,), 3, line=False, dots=True, titles=(title,), sizes=(5.0,))
    x, y = doc.Axis("FLOP per byte", "log"), doc.Axis("FLOP/s", "log", "FLOP/s")
    yield doc.Plot("Roofline", (*roofs, measured, own), x, y, show="page")


def _roof(low: float, high: float, bandwidth: float, top: float) -> tuple[tuple[float, float], ...]:
    bend = min(max(top / bandwidth, low), high)
    return (low, min(low * bandwidth, top)), (bend, min(bend * bandwidth, top)), (high, min(high * bandwidth, top))


def _operations(profile: Profile) -> Iterator[doc.Part]:
    total = sum(each.seconds for each in profile.operations)
    if not total:
        return
    source = "on the device" if profile.busy_share is not None else "by PyTorch's profiler, which itself costs time"
    heads = doc.columns("operation", "calls", "own time", "share", "speed", "traffic")
    rows = tuple(
        (
            each.name,
            f"{each.calls:,.0f}",
            seconds_of(each.seconds),
            f"{each.seconds / total:.0%}",
            rate_of(each.flops / each.seconds, "FLOP/s") if each.flops and each.seconds else "",
            bytes_of(each.bytes) if each.bytes else "",
        )
        for each in profile.operations[:ROWS]
    )
    yield doc.Table("Operations", heads, rows, hint=f"own time per step, {source}")


def _modules(profile: Profile) -> Iterator[doc.Part]:
    if not profile.modules:
        return
    heads = doc.columns("module", "forward", "backward", "FLOP, forward", "kept for backward", "parameters")
    rows = tuple(
        (
            f"{each.name or '(the model)'} {each.kind}",
            seconds_of(each.forward),
            seconds_of(each.backward),
            rate_of(each.flops, "FLOP") if each.flops else "",
            bytes_of(each.activations) if each.activations else "",
            bytes_of(each.parameters) if each.parameters else "",
        )
        for each in profile.modules[:ROWS]
    )
    yield doc.Table("Modules", heads, rows, hint="time of their own operations, without submodules")


def _copies(profile: Profile) -> Iterator[doc.Part]:
    shown = [each for each in profile.copies if each.share >= COPIED][:ROWS]
    if not shown:
        return
    rows = tuple(
        (
            where(each.place) or "?",
            line_of(each.place).strip(),
            f"{each.how}, in the backward" if each.backward else each.how,
            f"{each.calls:,}",
            bytes_of(each.bytes),
            f"{each.share:.0%}",
        )
        for each in shown
    )
    text = (doc.Column("where", "name"), doc.Column("line"), doc.Column("copy"))
    heads = (*text, *(doc.Column(name, "number") for name in ("calls", "traffic", "share")))
    yield doc.Table("Silent copies", heads, rows, hint="of your lines, with their share of the step's memory traffic")


def _memory(memory: Memory) -> Iterator[doc.Part]:
    sizes = {
        "parameters": (memory.parameters, 0),
        "gradients": (memory.gradients, 5),
        "optimizer state": (memory.optimizer, 4),
        "buffers": (memory.buffers, 8),
        "activations": (memory.activations, 2),
    }
    ends = list(accumulate(size for size, _ in sizes.values()))
    predicted = tuple(
        doc.Segment(name, end - size, end, bytes_of(size), color)
        for (name, (size, color)), end in zip(sizes.items(), ends, strict=True)
        if size
    )
    lanes = [doc.Lane("predicted", predicted)]
    peak = ""
    if memory.measured is not None:
        lanes.append(doc.Lane("measured", (doc.Segment("peak", 0, memory.measured, bytes_of(memory.measured), 1),)))
        peak = f"; measured peak {bytes_of(memory.measured)}, {memory.how}"
    yield doc.Lanes("Memory", tuple(lanes), hint=f"predicted {bytes_of(memory.predicted)}{peak}")
    facts: dict[str, Any] = {
        "workspace and batches": memory.workspace,
        "fragmentation": memory.fragmentation,
        "peak of the process": memory.process,
        "capacity": memory.capacity,
    }
    shown = {name: bytes_of(size) for name, size in facts.items() if size}
    if memory.moment:
        shown["the peak is in"] = PHASES[memory.moment] + (f", in {memory.module}" if memory.module else "")
    if shown:
        yield doc.Facts("", shown)


def _compiler(compiled: Compiled) -> Iterator[doc.Part]:
    counts = f"{counted(len(compiled.breaks), 'graph break')}, {counted(len(compiled.recompiles), 'recompile')}"
    hint = f"{counted(compiled.graphs, 'graph')}, {counts}, {compiled.seconds:.1f} s"
    kinds = (("break", compiled.breaks), ("recompile", compiled.recompiles))
    rows = tuple((kind, where(note.place) or "?", note.what) for kind, notes in kinds for note in notes[:ROWS])
    heads = (doc.Column("event"), doc.Column("where", "name"), doc.Column("why"))
    yield doc.Table("Compiler", heads, rows, hint=hint) if rows else doc.Text(f"Compiler: {hint}")


def _advice(profile: Profile) -> Iterator[doc.Part]:
    if not profile.advice:
        unknown = not profile.operations and profile.work is None
        found = "Not known: operations were not measured." if unknown else NO_ADVICE
        yield doc.Text(found, title="What to change")
    for number, each in enumerate(profile.advice):
        yield doc.Card(
            heading=each.what,
            message=f"computed from: {each.computed_from}",
            tone="good",
            badge=f"{each.gain:.2f}x",
            place=each.place,
            source=line_of(each.place),
            title="" if number else "What to change",
            hint="predicted gains; they do not add up",
        )
