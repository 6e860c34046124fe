"""Speed against memory in letters: each trial by its number, those that nobody beats in both marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trueloop.report.units import bytes_of
from trueloop.results.tune import Trial, front

__all__ = ["picture", "sign_of"]

WIDTH: Final = 60
HEIGHT: Final = 10
SIGNS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def sign_of(number: int) -> str:
    """One letter for a trial."""
    return SIGNS[number] if number < len(SIGNS) else "+"


def picture(trials: Sequence[Trial]) -> list[str]:
    """Lines; none if there are not two points. Up is faster, left is smaller. Of two on one spot, the one that counts
    is seen."""
    points = [trial for trial in trials if trial.pace is not None and trial.speed > 0]
    if len(points) < 2:
        return []
    best = front(points)
    speeds, peaks = [trial.speed for trial in points], [_peak(trial) for trial in points]
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for trial in sorted(points, key=lambda each: each in best):
        row = HEIGHT - 1 - _at(trial.speed, min(speeds), max(speeds), HEIGHT)
        column = _at(_peak(trial), min(peaks), max(peaks), WIDTH)
        grid[row][column] = sign_of(trial.number)
    labels = {0: f"{max(speeds):.2f}x", HEIGHT - 1: f"{min(speeds):.2f}x"}
    lines = [f"{labels.get(number, ''):>8} │{''.join(row).rstrip()}" for number, row in enumerate(grid)]
    low, high = bytes_of(min(peaks)), bytes_of(max(peaks))
    lines.append(f"{'':8} └{'─' * WIDTH}")
    lines.append(f"{'':10}{low}{'peak memory':^{max(0, WIDTH - len(low) - len(high))}}{high}")
    return lines


def _peak(trial: Trial) -> int:
    return trial.pace.peak_bytes if trial.pace else 0


def _at(value: float, low: float, high: float, cells: int) -> int:
    return round((value - low) / (high - low) * (cells - 1)) if high > low else 0
