"""The lines of a run's log, shared by the plain log and the progress bar."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from trueloop.hook import AGAIN, Ending, Row, Start
from trueloop.report.units import duration, number

__all__ = ["closing", "metrics", "opening", "speed"]

_OWN_WORDS: Final = ("samples_per_second", "data_wait", "memory_mb", "gradient_norm", "seconds")
"""Values of a training row that `speed` prints, or that only the files keep."""


def metrics(row: Row) -> list[str]:
    """`loss 0.2310`, `lr 1.2e-03`, and whatever else the row holds. In a validation row the loss comes last."""
    formats = {"lr": "{:.1e}".format, "skipped": "{:.0f}".format}
    values = row.values if row.kind == "train" else _loss_last(row.values)
    return [f"{name} {formats.get(name, number)(value)}" for name, value in values.items() if name not in _OWN_WORDS]


def _loss_last(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda pair: pair[0] == "loss"))


def speed(row: Row) -> list[str]:
    """`1,740 samples/s`, `data  1%`, `412 MB`."""
    values, parts = row.values, []
    if "samples_per_second" in values:
        parts.append(f"{values['samples_per_second']:,.0f} samples/s")
    if "data_wait" in values:
        parts.append(f"data {100 * values['data_wait']:.0f}%")
    if "memory_mb" in values:
        megabytes = values["memory_mb"]
        parts.append(f"{megabytes:,.0f} MB" if megabytes < 1e4 else f"{megabytes / 1024:,.1f} GB")
    return parts


def opening(start: Start) -> Iterator[str]:
    yield f"{start.name}: {start.model}, {start.parameters:,} parameters, on {start.device}"
    yield from (note for note in start.notes if note)
    if start.from_step:
        yield f"resumed at step {start.from_step:,} of {start.total_steps:,}"


def closing(ending: Ending, folder: str, seconds: float, valid: Row | None = None) -> Iterator[str]:
    """How the run ended, the best metric, and what to open or type next. `valid`: the last validation."""
    if ending.message:
        yield ending.message
    yield f"{ending.reason.replace('-', ' '):<9}  step {ending.step:,} after {duration(seconds)}"
    if ending.best is not None:
        at = f" at step {ending.best_step:,}" if ending.best_step is not None else ""
        checkpoint = f"  {ending.best_checkpoint}" if ending.best_checkpoint else ""
        yield f"best       {ending.metric} {number(ending.best)}{at}{checkpoint}"
    elif valid is not None and not math.isfinite(valid.values.get(ending.metric, 0.0)):
        yield f"best       none: validation {ending.metric} is {number(valid.values[ending.metric])}"
    if ending.test:
        yield "test       " + "  ".join(f"{name} {number(value)}" for name, value in _loss_last(ending.test).items())
    if folder and ending.step:
        yield f"curves     trueloop ui {folder}"
    told = any(words in ending.message for words in ("trueloop resume", AGAIN))
    if folder and ending.step and ending.reason in ("signal", "failed") and not told:
        yield f"resume     trueloop resume {folder}"
