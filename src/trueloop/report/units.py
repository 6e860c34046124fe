"""Numbers with their units, as short as they can be read: 1.25 ms, 3.2 MB, 41 GFLOP/s."""

from __future__ import annotations

from typing import Final

__all__ = ["bytes_of", "rate_of", "seconds_of"]

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
