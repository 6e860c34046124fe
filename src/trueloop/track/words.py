"""What a run says of itself, in words: shared by the plain log and the bar, so that both tell the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from trueloop.hook import Ending, Row, Start

__all__ = ["CURVES", "closing", "duration", "metrics", "number", "opening", "speed"]

CURVES: Final = "curves.html"
"""The picture of the curves, in the run's folder."""
_SPOKEN: Final = ("samples_per_second", "data_wait", "memory_mb", "gradient_norm", "seconds")
"""Values of a training row that have their own words, or that only the files keep."""


def number(value: float) -> str:
    """Four decimals where that says something, else powers of ten: columns of them line up."""
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


def metrics(row: Row) -> list[str]:
    """`loss 0.2310`, `lr 1.2e-03`, and whatever else the row holds by name. Of a validation, what people look for first
    comes first."""
    values = row.values if row.kind == "train" else _loss_last(row.values)
    return [
        f"{name} {value:.1e}"
        if name == "lr"
        else f"{name} {value:.0f}"
        if name == "skipped"
        else f"{name} {number(value)}"
        for name, value in values.items()
        if name not in _SPOKEN
    ]


def _loss_last(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda pair: pair[0] == "loss"))


def speed(row: Row) -> list[str]:
    """`1,740 samples/s`, `data  1%`, `412 MB`."""
    values, said = row.values, []
    if "samples_per_second" in values:
        said.append(f"{values['samples_per_second']:,.0f} samples/s")
    if "data_wait" in values:
        said.append(f"data {100 * values['data_wait']:.0f}%")
    if "memory_mb" in values:
        megabytes = values["memory_mb"]
        said.append(f"{megabytes:,.0f} MB" if megabytes < 1e4 else f"{megabytes / 1024:,.1f} GB")
    return said


def opening(start: Start) -> Iterator[str]:
    yield f"{start.name}: {start.model}, {start.parameters:,} parameters, on {start.device}"
    yield from (note for note in start.notes if note)
    if start.from_step:
        yield f"resumed at step {start.from_step:,} of {start.total_steps:,}"


def closing(ending: Ending, folder: str, seconds: float) -> Iterator[str]:
    """How it ended, what was reached, and what to open or type next."""
    if ending.message:
        yield ending.message
    yield f"{ending.reason.replace('-', ' '):<9}  step {ending.step:,} after {duration(seconds)}"
    if ending.best is not None:
        at = f" at step {ending.best_step:,}" if ending.best_step is not None else ""
        yield f"best       {ending.metric} {number(ending.best)}{at}" + (
            f"  {ending.best_checkpoint}" if ending.best_checkpoint else ""
        )
    if ending.test:
        yield "test       " + "  ".join(f"{name} {number(value)}" for name, value in _loss_last(ending.test).items())
    if folder and (Path(folder) / CURVES).is_file():
        yield f"curves     {Path(folder) / CURVES}"
    if folder and ending.step and ending.reason in ("signal", "failed") and "trueloop resume" not in ending.message:
        yield f"go on      trueloop resume {folder}"
