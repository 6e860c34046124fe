"""Numbers with their units, as short as they can be read: 1.25 ms, 3.2 MB, 41 GFLOP/s."""

import math
from typing import Final

__all__ = ["bytes_of", "duration", "number", "quantity", "rate_of", "seconds_of"]

_STEPS: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds_of(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns" if seconds else "0 s"


def rate_of(value: float, unit: str) -> str:
    for size, letter in _STEPS:
        if value >= size:
            return f"{value / size:.3g} {letter}{unit}"
    return f"{value:.3g} {unit}"


def bytes_of(count: float) -> str:
    return rate_of(count, "B")


def quantity(value: float, unit: str = "") -> str:
    """A value in a unit: s, x (times), B, FLOP/s; without one, a plain number."""
    if unit == "s":
        return seconds_of(value)
    if unit == "x":
        return f"{value:.2f}x"
    if unit:
        return rate_of(value, unit)
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 and value == int(value) else f"{value:.4g}"


def number(value: float) -> str:
    """A metric: four decimals where they mean something, else scientific notation, so that columns line up."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.2e}"


def duration(seconds: float) -> str:
    """4.8 s, 3:12, 2:05:10."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
