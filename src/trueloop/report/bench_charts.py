"""The pictures of a bench: latency of each form and batch, throughput over the size of the batch."""

from __future__ import annotations

import math
from html import escape
from typing import Final

from trueloop.report.svg import WIDE, box, legend, svg, text
from trueloop.report.units import seconds_of
from trueloop.results.bench import Bench, Form, Pace

__all__ = ["colours_of", "latency_chart", "throughput_chart"]

COLOURS: Final = ("#3b7dd8", "#e59b2c", "#3a9d5d", "#d1495b", "#8e5bd0", "#2aa7b8", "#b8a13a", "#b565a7")
NAMES: Final = 190.0
"""Points at the left, for the names of forms."""
NUMBERS: Final = 80.0
"""Points at the right, for the medians."""
ROW: Final = 22.0
WORST: Final = 4.0
"""How many of the slowest median a picture reaches: one call in a hundred that took far longer must not press all bars
together."""
HIGH: Final = 240.0


def colours_of(told: Bench) -> dict[str, str]:
    """Name of a form -> its colour, the same in both pictures."""
    return {form.name: COLOURS[number % len(COLOURS)] for number, form in enumerate(told.forms)}


# -- latency --


def latency_chart(told: Bench) -> str:
    """A bar to the median, a whisker on to the 95th and 99th percentile; each batch has a scale of its own."""
    parts: list[str] = []
    at, colours = 0.0, colours_of(told)
    for batch in told.batches:
        paces = [pace for form in told.forms if (pace := form.pace(batch)) is not None]
        if not paces:
            continue
        reach = min(max(pace.p99 for pace in paces), WORST * max(pace.p50 for pace in paces))
        parts.append(text(0, at + 16, f"batch {batch}"))
        parts.append(text(WIDE - NUMBERS, at + 16, seconds_of(reach), anchor="end", soft=True))
        at += ROW
        for form in told.forms:
            parts += _row(form, batch, at, (WIDE - NAMES - NUMBERS) / reach, colours[form.name])
            at += ROW
        at += ROW / 2
    return svg(at, parts, "latency of each form and batch")


def _row(form: Form, batch: int, at: float, scale: float, colour: str) -> list[str]:
    pace = form.pace(batch)
    if pace is None:
        return [text(NAMES - 8, at + 15, form.name, anchor="end"), text(NAMES, at + 15, "failed", soft=True)]
    numbers = f"{form.name}, batch {batch}: p50 {seconds_of(pace.p50)}, p95 {seconds_of(pace.p95)}, p99 {seconds_of(pace.p99)}"
    return [
        text(NAMES - 8, at + 15, form.name, anchor="end"),
        box(NAMES, at + 3, pace.p50 * scale, ROW - 6, colour, numbers),
        _whisker(pace, at + ROW / 2, scale, numbers),
        text(WIDE, at + 15, seconds_of(pace.p50), anchor="end", soft=True),
    ]


def _whisker(pace: Pace, middle: float, scale: float, numbers: str) -> str:
    end, most = NAMES + pace.p99 * scale, WIDE - NUMBERS
    path = f"M{NAMES + pace.p50 * scale:.1f} {middle:.1f}H{min(end, most):.1f}"
    path += "".join(f"M{x:.1f} {middle - 5:.1f}v10" for x in (NAMES + pace.p95 * scale, end) if x <= most + 0.5)
    if end > most + 0.5:
        path += f"M{most - 6:.1f} {middle - 5:.1f}l6 5l-6 5"  # it goes on
    return (
        f'<path d="{path}" fill="none" stroke="var(--ink)" stroke-width="1.5"><title>{escape(numbers)}</title></path>'
    )


# -- throughput --


def throughput_chart(told: Bench) -> str:
    """Samples per second up, the size of the batch across, by its doublings. Nothing if there are not two batches."""
    batches = sorted({pace.batch for form in told.forms for pace in form.paces})
    if len(batches) < 2:
        return ""
    most = max(pace.per_second for form in told.forms for pace in form.paces)
    left, right, top = 70.0, WIDE - 20.0, 14.0
    low, high = math.log2(batches[0]), math.log2(batches[-1])

    def x(batch: int) -> float:
        return left + (math.log2(batch) - low) / (high - low) * (right - left)

    def y(per_second: float) -> float:
        return HIGH - per_second / most * (HIGH - top)

    parts = [f'<path d="M{left} {top}V{HIGH}H{right}" fill="none" stroke="var(--line)"/>']
    parts += [
        text(left - 8, y(most * part) + 4, f"{most * part:,.0f}", anchor="end", soft=True) for part in (0.0, 0.5, 1.0)
    ]
    parts += [text(x(batch), HIGH + 18, str(batch), anchor="middle", soft=True) for batch in batches]
    parts.append(text(right, HIGH + 36, "samples in a batch", anchor="end", soft=True))
    colours = colours_of(told)
    for form in told.forms:
        spots = sorted((pace.batch, pace.per_second) for pace in form.paces)
        line = " ".join(f"{x(batch):.1f},{y(speed):.1f}" for batch, speed in spots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colours[form.name]}" stroke-width="2"/>')
        for batch, speed in spots:
            title = escape(f"{form.name}, batch {batch}: {speed:,.0f} samples per second")
            spot = f'cx="{x(batch):.1f}" cy="{y(speed):.1f}" r="4"'
            parts.append(f'<circle {spot} fill="{colours[form.name]}"><title>{title}</title></circle>')
    shown = {form.name: colours[form.name] for form in told.forms if form.paces}
    return svg(HIGH + 42, parts, "throughput over the size of the batch") + legend(shown)
