"""A long curve as few points: the lowest and the highest value of each bucket, so that a spike stays visible."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Curve", "bucket_means", "curve", "smooth"]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of a curve. `bad`: where its values were NaN or Inf (at most 50)."""

    x: list[float]
    y: list[float | None]
    total: int  # Points in the range, before buckets were made
    bad: list[float]


def curve(
    x: Sequence[float], y: Sequence[float], points: int, low: float | None = None, high: float | None = None
) -> Curve:
    """About `points` points between `low` and `high`, and one on each side. x must not fall."""
    begin = 0 if low is None else max(0, bisect_left(x, low) - 1)
    end = len(x) if high is None else min(len(x), bisect_right(x, high) + 1)
    total = end - begin
    size = max(1, math.ceil(total / max(1, points // 2)))
    kept: list[int] = []
    bad: list[float] = []
    if size <= 2:
        kept = list(range(begin, end))
        bad = [x[index] for index in kept if not math.isfinite(y[index])]
    else:
        for start in range(begin, end, size):
            kept += _extremes(y, start, min(start + size, end), x, bad)
        if end - 1 not in kept[-2:]:
            kept.append(end - 1)
    values = [value if math.isfinite(value) else None for value in (y[index] for index in kept)]
    return Curve([x[index] for index in kept], values, total, bad[:50])


def _extremes(y: Sequence[float], start: int, stop: int, x: Sequence[float], bad: list[float]) -> list[int]:
    part = y[start:stop]
    if not math.isfinite(math.fsum((min(part), max(part)))) or not math.isfinite(sum(part)):
        wrong = [start + index for index, value in enumerate(part) if not math.isfinite(value)]
        bad += [x[index] for index in wrong[:50]]
        good = [start + index for index, value in enumerate(part) if math.isfinite(value)]
        if not good:
            return [start]
        ends = {min(good, key=y.__getitem__), max(good, key=y.__getitem__)}
        return sorted(ends | set(wrong[:1]))
    low, high = start + _index(part, min(part)), start + _index(part, max(part))
    return sorted({low, high})


def _index(part: Sequence[float], value: float) -> int:
    return part.index(value)


def smooth(values: Sequence[float], weight: float) -> array[float]:
    """An exponential mean, without the pull of its start to zero; `weight` (0 to 1) is that of the past."""
    out = array("d")
    mean, mass = 0.0, 0.0
    for value in values:
        if math.isfinite(value):
            mean, mass = weight * mean + (1 - weight) * value, weight * mass + (1 - weight)
        out.append(mean / mass if mass else math.nan)
    return out


def bucket_means(x: Sequence[float], y: Sequence[float], edges: Sequence[float]) -> list[float | None]:
    """The mean of the values between each two edges; None where there are none."""
    means: list[float | None] = []
    at = bisect_left(x, edges[0])
    for upper in edges[1:]:
        end = bisect_right(x, upper, at)
        part = [value for value in y[at:end] if math.isfinite(value)]
        means.append(sum(part) / len(part) if part else None)
        at = end
    return means
