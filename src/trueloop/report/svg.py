"""Charts as SVG, for every page: bars, lanes, and plots of lines and dots. The colors are variables of `style.css`.

Values that are NaN or Inf are gaps, and marked. Every plot also says in words where each line begins and ends.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from trueloop.report.units import number, quantity
from trueloop.results.document import Axis, Bars, Lanes, Plot, Series, Tone

__all__ = ["COLORS", "bars_svg", "color_of", "lanes_svg", "plot_svg"]

Point = tuple[float, float]

WIDTH: Final = 720.0  # points across; the page scales them to its width
HEIGHT: Final = 300.0
LEFT: Final = 92.0
RIGHT: Final = 16.0
TOP: Final = 14.0
BOTTOM: Final = 44.0
ROW: Final = 22.0
LANE: Final = 40.0
LABELS: Final = 190.0  # points at the left of bars, at most, for their labels
NUMBERS: Final = 84.0  # points at the right of bars, for their values
REACH: Final = 4.0  # Times the longest bar a whisker may reach: one slow call in a hundred must not squeeze all bars
COLORS: Final = 10  # colors of the page's style, --c0 to --c9
POINTS: Final = 300  # Points drawn of a line: more cannot be distinguished at this width, and the page stays small
MARKS: Final = 12  # non-finite values of a line that are marked one by one
LOG_FROM: Final = 30.0
"""An `auto` axis is logarithmic from this ratio of largest to smallest value: else the end of a loss is a flat line."""
MOST_POWERS: Final = 12  # Labels of a logarithmic axis, at most: more of them overlap
TINY: Final = 1e-300  # below it, a logarithm is at the end of what floats can hold


def color_of(color: int | Tone) -> str:
    return f"var(--c{color % COLORS})" if isinstance(color, int) else f"var(--{color or 'soft'})"


def _svg(height: float, parts: Iterable[str], title: str, words: str = "", name: str = "chart") -> str:
    about = f'<title id="{name}-title">{escape(title)}</title>'
    ids = f"{name}-title"
    if words:
        about, ids = f'{about}<desc id="{name}-desc">{escape(words)}</desc>', f"{ids} {name}-desc"
    body = "".join(parts)
    return f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-labelledby="{ids}">{about}{body}</svg>'


def _box(x: float, y: float, width: float, height: float, color: int, title: str) -> str:
    shape = f'x="{x:.2f}" y="{y:.1f}" width="{max(width, 0.3):.2f}" height="{height:.1f}"'
    return f'<rect {shape} fill="{color_of(color)}"><title>{escape(title)}</title></rect>'


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "soft") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def _legend(colors: Mapping[str, int | Tone]) -> str:
    """Words -> their color."""
    chips = (
        f'<span><i style="background:{color_of(color)}"></i>{escape(words)}</span>' for words, color in colors.items()
    )
    return f'<p class="legend">{"".join(chips)}</p>'


# -- bars --


def bars_svg(bars: Bars, name: str = "chart") -> str:
    """A bar to each value, and a whisker from there over the further values."""
    texts = bars.texts or tuple(quantity(value) for value in bars.values)
    longest = max(bars.values, default=0.0) or 1.0
    reach = min(max((max(each, default=0.0) for each in bars.whiskers), default=0.0), REACH * longest)
    left = min(LABELS, 8.0 + 7.5 * max(map(len, bars.labels), default=0))
    scale = (WIDTH - left - NUMBERS) / max(longest, reach)
    parts: list[str] = []
    for index, (label, value, text) in enumerate(zip(bars.labels, bars.values, texts, strict=True)):
        y = index * ROW
        parts.append(_text(left - 8, y + 15, label, "end", ""))
        parts.append(_text(WIDTH, y + 15, text, "end"))
        color = bars.colors[index] if bars.colors else 2
        parts.append(_box(left, y + 3, value * scale, ROW - 6, color, f"{label}: {text}"))
        if bars.whiskers and bars.whiskers[index]:
            parts.append(_whisker(value, bars.whiskers[index], left, scale, y + ROW / 2))
    return _svg(len(bars.labels) * ROW, parts, bars.title or "bars", name=name)


def _whisker(value: float, further: Sequence[float], left: float, scale: float, y: float) -> str:
    end, edge = left + max(further) * scale, WIDTH - NUMBERS
    path = f"M{left + value * scale:.1f} {y:.1f}H{min(end, edge):.1f}"
    path += "".join(f"M{left + x * scale:.1f} {y - 5:.1f}v10" for x in further if left + x * scale <= edge + 0.5)
    if end > edge + 0.5:
        path += f"M{edge - 6:.1f} {y - 5:.1f}l6 5l-6 5"  # an arrow: it continues
    return f'<path class="whisker" d="{path}"/>'


# -- lanes --


def lanes_svg(chart: Lanes, name: str = "chart") -> str:
    """Segments side by side, one lane below the other, on one scale."""
    until = max((each.end for lane in chart.lanes for each in lane.segments), default=0.0) or 1.0
    left = 80.0 if any(lane.label for lane in chart.lanes) else 0.0
    scale = (WIDTH - left) / until
    parts: list[str] = []
    for row, lane in enumerate(chart.lanes):
        parts.append(_text(0, 25 + LANE * row, lane.label))
        for each in lane.segments:
            x, width = left + each.start * scale, (each.end - each.start) * scale
            parts.append(_box(x, 5 + LANE * row, width, 30, each.color, f"{each.name}: {each.text}"))
            if width > 8 + 7 * len(each.text):
                parts.append(_text(x + 6, 25 + LANE * row, each.text, kind="inside"))
    height = LANE * len(chart.lanes)
    if chart.unit:
        shares = (0.0, 0.25, 0.5, 0.75)
        parts += [_text(left + until * at * scale, height + 14, quantity(until * at, chart.unit)) for at in shares]
        height += 20
    colors = {each.name: each.color for lane in chart.lanes for each in lane.segments}
    return _svg(height, parts, chart.title or "lanes", name=name) + _legend(colors)


# -- plots --


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        low, high, here = map(math.log10, (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return self.start + (self.end - self.start) * (here - low) / (high - low)

    def can_show(self, value: float) -> bool:
        return math.isfinite(value) and (not self.log or value > TINY)


def plot_svg(plot: Plot, name: str = "chart") -> str:
    """The plot, with a legend below it where it has several series."""
    series = [each for each in plot.series if each.points]
    x = _scale([point[0] for each in series for point in each.points], plot.x, LEFT, WIDTH - RIGHT)
    values = [value for each in series for _, value in each.points if math.isfinite(value)]
    y = _scale(values, plot.y, HEIGHT - BOTTOM, TOP)
    parts = [*_grid(plot, x, y, bool(values)), *(part for each in series for part in _drawn(each, x, y, plot.x.label))]
    words = "; ".join(_in_words(each, plot.x.label) for each in series if each.line)
    named = {each.name: each.color for each in series if each.name}
    drawn = _svg(HEIGHT, parts, plot.title, words, name)
    return drawn + (_legend(named) if len(named) > 1 else "")


def _scale(values: Sequence[float], axis: Axis, start: float, end: float) -> _Scale:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    wide = low > TINY and (axis.scale == "log" or high / low >= LOG_FROM)
    log = axis.scale != "linear" and wide
    if axis.zero and not log:
        low, high = min(0.0, low), high if high > 0 else 1.0
    elif log and not axis.ticks:
        low, high = low / 1.1, high * 1.1
    elif not axis.ticks or high <= low:
        room = (high - low) * 0.05 or abs(high) * 0.1 or 0.5
        low, high = low - room, high + room
    return _Scale(low, high, log, start, end)


def ticks(low: float, high: float, log: bool) -> list[float]:
    """Round numbers inside the range."""
    if log:
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        factors = (1,) if len(exponents) > 4 else (1, 2, 5)
        exponents = exponents[:: -(-len(exponents) // MOST_POWERS)]
        every = (factor * 10.0**exponent for exponent in exponents for factor in factors)
        return [value for value in every if low <= value <= high]
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _grid(plot: Plot, x: _Scale, y: _Scale, any_value: bool) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in (plot.y.ticks or ticks(y.low, y.high, y.log)) if any_value else ():
        at = y.at(value)
        yield f'<path class="grid" d="M{LEFT:g} {at:.1f}H{right:g}"/>'
        yield _text(LEFT - 8, at + 4, quantity(value, plot.y.unit), "end")
    for value in plot.x.ticks or ticks(x.low, x.high, x.log):
        at = x.at(value)
        yield _text(at, bottom + 18, quantity(value, plot.x.unit), "end" if at > right - 20 else "middle")
    yield f'<path class="axis" d="M{LEFT:g} {bottom:g}H{right:g}"/>'
    yield _text(right, HEIGHT - 8, plot.x.label, "end") if plot.x.label else ""
    yield _text(4, HEIGHT - 8, f"up: {plot.y.label}") if plot.y.label else ""


def _drawn(series: Series, x: _Scale, y: _Scale, over: str) -> Iterator[str]:
    tone = f'style="--tone:{color_of(series.color)}"'
    for piece in _pieces(thinned(series.points), y) if series.line else ():
        if len(piece) == 1:
            yield f'<circle class="dot" {tone} cx="{x.at(piece[0][0]):.1f}" cy="{y.at(piece[0][1]):.1f}" r="3"/>'
        else:
            path = "L".join(f"{x.at(across):.1f} {y.at(up):.1f}" for across, up in piece)
            yield f'<path class="line" {tone} d="M{path}"/>'
    bad = [across for across, up in series.points if not math.isfinite(up)]
    for across in bad[:MARKS]:
        title = f"<title>{escape(series.name)} was NaN or Inf at {escape(over)} {across:,}</title>"
        yield f'<path class="broken" d="M{x.at(across):.1f} {TOP:g}V{HEIGHT - BOTTOM:g}">{title}</path>'
    for index, (across, up) in enumerate(series.points) if series.dots else ():
        title = f"<title>{escape(series.titles[index])}</title>" if series.titles else ""
        size = series.sizes[index] if series.sizes else 4.0
        at = f'cx="{x.at(across):.1f}" cy="{y.at(up):.1f}" r="{size:.1f}"'
        yield f'<circle class="dot" {tone} {at}>{title}</circle>'
        yield _text(x.at(across) + size + 3, y.at(up) + 4, series.labels[index], kind="") if series.labels else ""
    if series.mark is not None and y.can_show(series.mark[1]):
        across, up = series.mark
        title = f"<title>best: {number(up)} at {escape(over)} {across:,}</title>"
        yield f'<circle class="mark" {tone} cx="{x.at(across):.1f}" cy="{y.at(up):.1f}" r="5">{title}</circle>'


def _pieces(points: Sequence[Point], y: _Scale) -> Iterator[list[Point]]:
    """Cut at values that cannot be drawn."""
    piece: list[Point] = []
    for point in points:
        if y.can_show(point[1]):
            piece.append(point)
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def thinned(points: Sequence[Point], most: int = POINTS) -> list[Point]:
    """About `most` points, with the lowest and the highest of each stretch: a spike must stay visible."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / (most // 2 - 1))
    kept = {0, len(points) - 1}
    for begin in range(0, len(points), size):
        stretch = range(begin, min(begin + size, len(points)))
        finite = [index for index in stretch if math.isfinite(points[index][1])]
        kept.update([index for index in stretch if not math.isfinite(points[index][1])][:1])
        if finite:
            kept |= {min(finite, key=lambda i: points[i][1]), max(finite, key=lambda i: points[i][1])}
    return [points[index] for index in sorted(kept)]


def _in_words(series: Series, over: str) -> str:
    (first, begin), (last, end) = series.points[0], series.points[-1]
    words = f"{series.name}: {number(begin)} at {over} {first:,}"
    return words if len(series.points) == 1 else f"{words}, {number(end)} at {over} {last:,}"
