"""The charts of a profile, as SVG written by hand: phases, timeline, roofline, memory. Colours work on light and on
dark paper."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import Final

from trueloop.report.svg import WIDE, box, legend, svg, text
from trueloop.report.units import bytes_of, rate_of, seconds_of
from trueloop.results.profile import PHASES, Profile, Span

__all__ = ["memory_chart", "phase_bar", "roofline", "timeline"]

COLOURS: Final = {
    "data": "#d1495b",
    "copy": "#b565a7",
    "forward": "#3a9d5d",
    "backward": "#3b7dd8",
    "optimizer": "#2aa7b8",
    "communication": "#8e5bd0",
    "device": "#b8a13a",
    "python": "#e59b2c",
    "saving": "#8a8f98",
    "evaluating": "#9db35a",
    "kernels": "#3b7dd8",
}


def _legend(names: Iterable[str]) -> str:
    words: dict[str, str] = {phase: said for phase, said in PHASES.items()}  # noqa: C416 - the keys become any names
    return legend({words.get(name, name): COLOURS[name] for name in names})


def phase_bar(profile: Profile) -> str:
    """One bar, as long as the step."""
    steps = profile.steps
    assert steps is not None
    parts, at = [], 0.0
    shown = [phase for phase in PHASES if steps.phases.get(phase)]
    for phase in shown:
        width = steps.share(phase) * WIDE
        parts.append(
            box(
                at,
                0,
                width,
                34,
                COLOURS[phase],
                f"{PHASES[phase]}: {seconds_of(steps.phases[phase])}, {steps.share(phase):.1%}",
            )
        )
        if width > 60:
            parts.append(f'<text x="{at + 6:.1f}" y="22" style="fill:#fff">{steps.share(phase):.0%}</text>')
        at += width
    return svg(34, parts, "phases of a step") + _legend(shown)


def timeline(spans: tuple[Span, ...]) -> str:
    """What host and device were at, beside one another."""
    lanes = [lane for lane in ("host", "device", "copy") if any(span.lane == lane for span in spans)]
    until = max(span.end for span in spans) or 1.0
    left, scale = 60.0, (WIDE - 60.0) / until
    parts = [text(0, 30 + 40 * row, lane, soft=True) for row, lane in enumerate(lanes)]
    for span in spans:
        y = 10 + 40 * lanes.index(span.lane)
        title = f"{span.name}: {seconds_of(span.end - span.start)}"
        parts.append(
            box(
                left + span.start * scale,
                y,
                (span.end - span.start) * scale,
                30,
                COLOURS.get(span.name, "#8a8f98"),
                title,
            )
        )
    bottom = 24 + 40 * len(lanes)
    parts += [
        text(left + WIDE * 0.9 * part, bottom, seconds_of(until * part), soft=True) for part in (0.0, 0.25, 0.5, 0.75)
    ]
    return svg(bottom + 8, parts, "timeline") + _legend(dict.fromkeys(span.name for span in spans))


def roofline(profile: Profile) -> str:
    """FLOPs per byte across, FLOPs per second up, both by powers of ten: the machine's roof, and where operations and
    the step stand."""
    work, ceilings, steps = profile.work, profile.ceilings, profile.steps
    if work is None or ceilings is None or steps is None or not ceilings.bandwidth or not work.bytes:
        return ""
    peak, high, top, left = max(ceilings.flops.values()), 260.0, 20.0, 60.0
    dots = [
        (each.name, each.flops / each.bytes, each.flops / each.seconds, each.seconds)
        for each in profile.operations
        if each.flops and each.bytes
    ]
    dots.append(("the step", work.intensity, work.flops / steps.seconds, 0.0))
    dots = [dot for dot in dots if dot[1] > 0 and dot[2] > 0]
    low_x, high_x = (
        math.log10(min([0.1, *(dot[1] for dot in dots)])),
        math.log10(max([1000.0, *(dot[1] for dot in dots)])),
    )
    low_y, high_y = math.log10(min([peak / 1e4, *(dot[2] for dot in dots)])), math.log10(peak * 2)

    def x(value: float) -> float:
        return left + (math.log10(value) - low_x) / (high_x - low_x) * (WIDE - left - 20)

    def y(value: float) -> float:
        return top + (high_y - math.log10(value)) / (high_y - low_y) * (high - top)

    parts = []
    for name, ceiling in ceilings.flops.items():
        ridge = ceiling / ceilings.bandwidth
        start, bend, end = 10**low_x, min(max(ridge, 10**low_x), 10**high_x), 10**high_x
        corners = ((start, max(start * ceilings.bandwidth, 10**low_y)), (bend, ceiling), (end, ceiling))
        points = " ".join(f"{x(across):.1f},{y(up):.1f}" for across, up in corners)
        parts.append(f'<polyline points="{points}" fill="none" stroke="#8a8f98" stroke-width="1.5"/>')
        parts.append(text(x(end), y(ceiling) - 4, f"{name} {rate_of(ceiling, 'FLOP/s')}", anchor="end", soft=True))
    longest = max((dot[3] for dot in dots), default=0.0) or 1.0
    for name, intensity, speed, seconds in dots:
        size, colour = (5.0, "#d1495b") if name == "the step" else (3 + 7 * math.sqrt(seconds / longest), "#3b7dd8")
        title = f"{name}: {intensity:.3g} FLOP per byte, {rate_of(speed, 'FLOP/s')}"
        parts.append(
            f'<circle cx="{x(intensity):.1f}" cy="{y(speed):.1f}" r="{size:.1f}" fill="{colour}" fill-opacity=".7">'
            f"<title>{escape(title)}</title></circle>"
        )
    powers = [10.0**power for power in range(math.ceil(low_x), math.floor(high_x) + 1)]
    parts += [text(x(power), high + 18, f"{power:g}", anchor="middle", soft=True) for power in powers]
    parts.append(text(WIDE - 20, high + 34, "FLOP per byte", anchor="end", soft=True))
    return svg(high + 40, parts, "roofline")


def memory_chart(profile: Profile) -> str:
    """Predicted above, measured below."""
    memory = profile.memory
    assert memory is not None
    kinds = {
        "parameters": (memory.parameters, "#3b7dd8"),
        "gradients": (memory.gradients, "#2aa7b8"),
        "optimizer state": (memory.optimizer, "#8e5bd0"),
        "buffers": (memory.buffers, "#8a8f98"),
        "activations": (memory.activations, "#3a9d5d"),
    }
    longest = max(memory.predicted, memory.measured or 0) or 1
    parts, at = [text(0, 22, "predicted", soft=True)], 80.0
    for name, (size, colour) in kinds.items():
        width = size / longest * (WIDE - 80)
        parts.append(box(at, 4, width, 28, colour, f"{name}: {bytes_of(size)}"))
        at += width
    if memory.measured is not None:
        parts.append(text(0, 62, "measured", soft=True))
        parts.append(
            box(80, 44, memory.measured / longest * (WIDE - 80), 28, "#e59b2c", f"peak: {bytes_of(memory.measured)}")
        )
    chips = {f"{name} {bytes_of(size)}": colour for name, (size, colour) in kinds.items() if size}
    return svg(76, parts, "memory") + legend(chips)
