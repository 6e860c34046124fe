"""What a loop tells its hooks, made by hand."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trueloop.hook import Ending, Hook, Row, Start

STEPS_PER_EPOCH = 20


def start(
    folder: Path | str = "", *, from_step: int = 0, total: int = 200, notes: tuple[str, ...] = ("data: 80 samples",)
) -> Start:
    return Start("digits", "Sequential", 29_258, "cpu", 1_197, total, STEPS_PER_EPOCH, from_step, notes, str(folder))


def trained(step: int, loss: float = 0.5, **values: float) -> Row:
    told = {
        "loss": loss,
        "lr": 1.2e-3,
        "gradient_norm": 0.7,
        "samples_per_second": 1740.0,
        "data_wait": 0.011,
        "memory_mb": 411.8,
    }
    return Row("train", step, step / STEPS_PER_EPOCH, {**told, **values})


def validated(step: int, accuracy: float, loss: float = 0.1, *, best: bool = False) -> Row:
    return Row("valid", step, step / STEPS_PER_EPOCH, {"accuracy": accuracy, "loss": loss}, best)


def on_test(step: int, accuracy: float) -> Row:
    return Row("test", step, step / STEPS_PER_EPOCH, {"accuracy": accuracy, "loss": 0.2})


def finished(**changes: Any) -> Ending:
    known: dict[str, Any] = {
        "best": 0.985,
        "best_step": 160,
        "metric": "accuracy",
        "test": {"accuracy": 0.97, "loss": 0.13},
    }
    return Ending(**{"reason": "finished", "step": 200, **known, **changes})


def told(
    hook: Hook, rows: Iterable[Row], folder: Path | str = "", *, from_step: int = 0, ending: Ending | None = None
) -> None:
    """A whole run, from its start to its end."""
    hook.started(start(folder, from_step=from_step))
    for row in rows:
        hook.logged(row)
    hook.ended(ending or finished())


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True
