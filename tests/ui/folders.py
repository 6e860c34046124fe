"""Run folders written without training: as `trueloop train` writes them, and as strangers might."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["make_run", "make_runs", "row"]


def row(step: int, loss: float = 1.0, kind: str = "train", **values: object) -> str:
    return json.dumps({"kind": kind, "step": step, "epoch": step / 100, "loss": loss, **values, "seconds": step / 10})


def rows(steps: int, every: int = 1) -> Iterator[str]:
    for step in range(1, steps + 1, every):
        yield row(step, 2.0 * math.exp(-step / (steps / 4)) + 0.05 * math.sin(step), lr=0.001, gradient_norm=1.0)


def make_run(folder: Path, name: str, lines: list[str] | None = None, **about: Any) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    recipe = {"name": "digits", "lr": 0.001, "seed": 0, "batch": 64, "accumulate": 1, **about.pop("recipe", {})}
    defaults = {
        "format": 1,
        "kind": "train",
        "name": name,
        "started": 1.7e9,
        "status": "finished",
        "metric": "accuracy",
    }
    text = json.dumps({**defaults, "recipe": recipe, "best": 0.9, "step": 100, "total_steps": 100, **about})
    (path / "run.json").write_text(text)
    written = lines if lines is not None else list(rows(100))
    (path / "metrics.jsonl").write_text("".join(f"{line}\n" for line in written))
    return path


def make_runs(folder: Path, number: int) -> Path:
    """A sweep: learning rates and seeds."""
    lines = list(rows(100, 2))
    for index in range(number):
        lr = 10.0 ** -(1 + index % 5)
        best = 0.9 + 0.01 * (index % 5) + 0.001 * (index % 7)
        make_run(
            folder, f"run-{index:04}", lines, recipe={"lr": lr, "seed": index // 5}, best=best, started=1.7e9 + index
        )
    return folder
