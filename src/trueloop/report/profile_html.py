"""A profile as one HTML file that opens offline: the verdict, a step's phases, a timeline, the roofline, memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final

from trueloop import __version__
from trueloop.report.evidence import as_words, where
from trueloop.report.html import PAGE, STYLE, TABLES, prose
from trueloop.report.profile_charts import memory_chart, phase_bar, roofline, timeline
from trueloop.report.svg import CHARTS
from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results.check import counted
from trueloop.results.profile import PHASES, Advice, Profile
from trueloop.usercode.source import line_of

__all__ = ["document"]

ROWS: Final = 15
"""Operations and modules that are shown."""


def document(profile: Profile) -> str:
    title = f"trueloop profile: {profile.subject}"
    return PAGE.format(title=escape(title), style=STYLE + TABLES + CHARTS, body="\n".join(_body(profile)))


def _body(profile: Profile) -> Iterator[str]:
    bound, steps = profile.bound, profile.steps
    yield f"<h1>{escape(bound.sentence.split(':')[0] if bound else 'Nothing to tell: no training step was seen')}</h1>"
    machine = profile.machine
    yield f'<p class="soft"><code>{escape(profile.subject)}</code> on {escape(machine.name)}, torch {escape(machine.torch)}</p>'
    if bound is not None and steps is not None:
        yield f'<ul class="facts">{"".join(_facts(profile))}</ul>'
        evidence = " · ".join(f"{name} {text}" for name, text in as_words(bound.evidence).items())
        yield f'<article class="warning"><p class="message">{prose(bound.sentence)}</p><p class="soft">{escape(evidence)}</p></article>'
        yield from map(_advice, profile.advice)
        yield _section("Where a step's time goes", phase_bar(profile), _phases(profile))
        yield _section("A few steps", timeline(profile.timeline), "") if profile.timeline else ""
        yield _section("Work and roofline", roofline(profile), _work(profile)) if profile.work else ""
        yield _section("Operations", "", _operations(profile)) if profile.operations else ""
        yield _section("Modules", "", _modules(profile)) if profile.modules else ""
        yield _section("Memory", memory_chart(profile), _memory(profile)) if profile.memory else ""
        yield _section("Compiler", "", _compiled(profile)) if profile.compiled else ""
    yield from (f'<article class="advice">{prose(note)}</article>' for note in profile.notes)
    yield from (
        f'<article class="error"><pre><span>{escape(failure)}</span></pre></article>' for failure in profile.failures
    )
    yield f"<footer>Written by trueloop {escape(__version__)}.</footer>"


def _facts(profile: Profile) -> Iterator[str]:
    steps = profile.steps
    assert steps is not None
    facts = {"a step": seconds_of(steps.seconds), "median": seconds_of(steps.median), "p95": seconds_of(steps.p95)}
    if profile.batch and steps.seconds:
        facts["samples per second"] = f"{profile.batch / steps.seconds:,.0f}"
    if profile.busy_share is not None:
        facts["device busy"] = f"{profile.busy_share:.0%}"
    if profile.mfu is not None:
        facts["MFU"] = f"{profile.mfu:.1%}"
    if profile.memory is not None and profile.memory.measured:
        facts["peak memory"] = bytes_of(profile.memory.measured)
    yield from (f"<li><b>{escape(value)}</b>{name}</li>" for name, value in facts.items())


def _advice(advice: Advice) -> str:
    place = (
        f"<p><code>{escape(where(advice.place))}</code> <code>{escape(line_of(advice.place).strip())}</code></p>"
        if advice.place
        else ""
    )
    return (
        f'<article class="good"><header class="finding"><h2><span class="badge">{advice.gain:.2f}x</span>{prose(advice.what)}</h2></header>'
        f'{place}<p class="soft">computed from: {prose(advice.computed_from)}</p></article>'
    )


def _section(title: str, picture: str, rest: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{picture}{rest}</section>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str], tag: str) -> str:
        made = (f"<{tag}{'' if not at else ' class=number'}>{escape(cell)}</{tag}>" for at, cell in enumerate(cells))
        return f"<tr>{''.join(made)}</tr>"

    return f"<table>{line(heads, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def _phases(profile: Profile) -> str:
    steps = profile.steps
    assert steps is not None
    shown = [(phase, words) for phase, words in PHASES.items() if steps.phases.get(phase)]
    rows = [(words, seconds_of(steps.phases[phase]), f"{steps.share(phase):.1%}") for phase, words in shown]
    if steps.evaluations:
        rows.append(
            (f"besides: evaluations, before {counted(steps.evaluations, 'step')}", seconds_of(steps.evaluating), "")
        )
    if steps.saves:
        rows.append((f"besides: saves, before {counted(steps.saves, 'step')}", seconds_of(steps.saving), ""))
    lines = [
        (f"{where(line.place)}  {line_of(line.place).strip()}", PHASES[line.phase], f"{line.share:.0%}")
        for line in profile.lines
    ]
    return _table(("phase", "per step", "share"), rows) + (_table(("line", "phase", "seen"), lines) if lines else "")


def _work(profile: Profile) -> str:
    work, ceilings = profile.work, profile.ceilings
    assert work is not None
    facts: dict[str, str] = {
        "FLOPs per step": rate_of(work.flops, "FLOP"),
        "operations": f"{work.operations:,}",
        "how": work.source,
    }
    if work.bytes:
        facts |= {"moved per step": bytes_of(work.bytes), "intensity": f"{work.intensity:.3g} FLOP per byte"}
    if ceilings is not None:
        facts |= {f"ceiling, {name}": rate_of(value, "FLOP/s") for name, value in ceilings.flops.items()}
        facts["ceiling, memory"] = rate_of(ceilings.bandwidth, "B/s")
        facts["a small operation"] = seconds_of(ceilings.launch)
    return _pairs(facts)


def _pairs(facts: Mapping[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in facts.items())}</dl>"


def _operations(profile: Profile) -> str:
    total = sum(each.seconds for each in profile.operations) or 1.0
    rows = (
        (
            each.name,
            f"{each.calls:,.0f}",
            seconds_of(each.seconds),
            f"{each.seconds / total:.1%}",
            rate_of(each.flops / each.seconds, "FLOP/s") if each.flops and each.seconds else "",
            bytes_of(each.bytes) if each.bytes else "",
        )
        for each in profile.operations[:ROWS]
    )
    return _table(("operation", "calls", "own time", "share", "speed", "moved"), rows)


def _modules(profile: Profile) -> str:
    rows = (
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
    return _table(("module", "forward", "backward", "FLOPs, forward", "kept for backward", "parameters"), rows)


def _memory(profile: Profile) -> str:
    memory = profile.memory
    assert memory is not None
    facts = {"predicted": bytes_of(memory.predicted)}
    if memory.measured is not None:
        facts["measured peak"] = f"{bytes_of(memory.measured)} ({memory.how})"
    if memory.moment is not None:
        facts["at"] = PHASES[memory.moment] + (f", in {memory.module}" if memory.module else "")
    facts |= {
        "fragmentation": bytes_of(memory.fragmentation),
        "process": bytes_of(memory.process),
        "capacity": bytes_of(memory.capacity),
    }
    return _pairs(facts)


def _compiled(profile: Profile) -> str:
    compiled = profile.compiled
    assert compiled is not None
    rows = [("break", where(note.place), note.what) for note in compiled.breaks]
    rows += [("recompile", where(note.place), note.what) for note in compiled.recompiles]
    facts = _pairs({"graphs": str(compiled.graphs), "compiling": seconds_of(compiled.seconds)})
    return facts + (_table(("what", "where", "why"), rows) if rows else "")
