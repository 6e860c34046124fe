"""One chart as SVG, drawn by ourselves: lines over steps, with gaps and marks where a value was no number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from trueloop.track.words import number

__all__ = ["Line", "chart", "thinned", "ticks"]

Point = tuple[int, float]

WIDTH: Final = 720
HEIGHT: Final = 300
LEFT: Final = 64
RIGHT: Final = 12
TOP: Final = 12
BOTTOM: Final = 34
MOST: Final = 300
"""Points of a line that are drawn: more than the eye tells apart at this width, and a page stays small."""
MARKS: Final = 12
"""Steps without a number that are marked one by one."""
WIDE: Final = 30.0
"""From this ratio of the largest to the smallest value on, the axis shows powers: else the end of a loss is a flat
line."""


TINY: Final = 1e-300
"""Below it, a logarithm is at the end of what floats can say."""


@dataclass(frozen=True, slots=True)
class Line:
    """A named series over steps. `tone` names its colour in the page's style."""

    name: str
    points: Sequence[Point]
    tone: str
    mark: Point | None = None
    """A point to stand out: the best."""


@dataclass(frozen=True, slots=True)
class _Axes:
    low: float
    high: float
    last: int
    powers: bool

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, self.last)

    def y(self, value: float) -> float:
        low, high, at = (
            (math.log10(each) for each in (self.low, self.high, value)) if self.powers else (self.low, self.high, value)
        )
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (at - low) / (high - low)


def chart(title: str, lines: Sequence[Line], name: str, *, linear: bool = False) -> str:
    """`name` is the chart's id in the page. `linear`: never powers. Says in words, too, where each line begins and
    ends."""
    lines = [line for line in lines if line.points]
    finite = [value for line in lines for _, value in line.points if math.isfinite(value)]
    steps = [step for line in lines for step, _ in line.points]
    axes = _axes(finite, max(steps, default=1), linear)
    body = [*_grid(axes, finite), *(part for line in lines for part in _drawn(line, axes))]
    told = "; ".join(_told(line) for line in lines)
    return "\n".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-title {name}-told">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-told">{escape(told)}</desc>',
            *body,
            "</svg>",
        ]
    )


def _axes(values: Sequence[float], last: int, linear: bool) -> _Axes:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    powers = not linear and low > TINY and high / low >= WIDE
    if powers:
        low, high = low / 1.1, high * 1.1
    else:
        room = (high - low) * 0.05 or abs(high) * 0.1 or 0.5
        low, high = low - room, high + room
    return _Axes(low, high, last, powers)


def ticks(low: float, high: float, powers: bool) -> list[float]:
    """Round numbers inside the range."""
    if powers:
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        factors = (1,) if len(exponents) > 4 else (1, 2, 5)
        return [
            factor * 10.0**exponent
            for exponent in exponents
            for factor in factors
            if low <= factor * 10.0**exponent <= high
        ]
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _grid(axes: _Axes, finite: Sequence[float]) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in ticks(axes.low, axes.high, axes.powers) if finite else ():
        y = axes.y(value)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/><text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
    for step in sorted({0, axes.last // 2, axes.last}):
        anchor = "start" if step == 0 else "end" if step == axes.last else "middle"
        yield f'<text x="{axes.x(step):.1f}" y="{bottom + 20}" text-anchor="{anchor}">{step:,}</text>'
    yield f'<path class="axis" d="M{LEFT} {bottom}H{right}"/>'


def _drawn(line: Line, axes: _Axes) -> Iterator[str]:
    for piece in _pieces(thinned(line.points)):
        if len(piece) == 1:
            yield f'<circle class="{line.tone} dot" cx="{axes.x(piece[0][0]):.1f}" cy="{axes.y(piece[0][1]):.1f}" r="3"/>'
        else:
            path = "L".join(f"{axes.x(step):.1f} {axes.y(value):.1f}" for step, value in piece)
            yield f'<path class="{line.tone}" d="M{path}"/>'
    broken = [step for step, value in line.points if not math.isfinite(value)]
    for step in broken[:MARKS]:
        told = f"<title>{escape(line.name)} was no number at step {step:,}</title>"
        yield f'<path class="broken" d="M{axes.x(step):.1f} {TOP}V{HEIGHT - BOTTOM}">{told}</path>'
    if line.mark is not None and math.isfinite(line.mark[1]):
        step, value = line.mark
        yield (
            f'<circle class="{line.tone} mark" cx="{axes.x(step):.1f}" cy="{axes.y(value):.1f}" r="5">'
            f"<title>best: {number(value)} at step {step:,}</title></circle>"
        )


def _pieces(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Cut where a value is no number."""
    piece: list[Point] = []
    for point in points:
        if math.isfinite(point[1]):
            piece.append(point)
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def thinned(points: Sequence[Point], most: int = MOST) -> list[Point]:
    """At most about so many points, with the lowest and the highest of each stretch kept: a spike must not vanish."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / (most // 2 - 1))
    kept: dict[int, Point] = {0: points[0], len(points) - 1: points[-1]}
    for begin in range(0, len(points), size):
        stretch = range(begin, min(begin + size, len(points)))
        broken = [index for index in stretch if not math.isfinite(points[index][1])]
        whole = [index for index in stretch if math.isfinite(points[index][1])]
        chosen = broken[:1] + (
            [min(whole, key=lambda i: points[i][1]), max(whole, key=lambda i: points[i][1])] if whole else []
        )
        kept.update({index: points[index] for index in chosen})
    return [kept[index] for index in sorted(kept)]


def _told(line: Line) -> str:
    (first, begin), (last, end) = line.points[0], line.points[-1]
    if len(line.points) == 1:
        return f"{line.name}: {number(begin)} at step {first:,}"
    return f"{line.name}: {number(begin)} at step {first:,}, {number(end)} at step {last:,}"
