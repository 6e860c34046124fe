"""Folders of runs, made by hand: what `trueloop train` would have left, without training."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.track.rows import start
from trueloop.hook import Row
from trueloop.track.metrics import FILE, MetricsFile

RECIPE: dict[str, Any] = {"name": "digits", "lr": 0.003, "seed": 0, "batch": 64, "betas": [0.9, 0.999]}
MACHINE: dict[str, Any] = {"trueloop": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "cpus": 2, "cuda": None}
FINISHED: dict[str, Any] = {"status": "finished", "step": 200, "best": 0.985, "best_step": 160}


def made(
    runs: Path, name: str, rows: Sequence[Row] = (), *, recipe: dict[str, Any] | None = None, **about: Any
) -> Path:
    """A run of that name. Without a `status` it still says 'running', as a killed one does."""
    path = runs / name
    path.mkdir(parents=True)
    (path / "lock").touch()
    known = {"format": 1, "kind": "train", "name": name, "started": 1000.0, "status": "running", "metric": "accuracy"}
    told = {
        **known,
        "higher_is_better": True,
        "total_steps": 200,
        "recipe": {**RECIPE, **(recipe or {})},
        "machine": MACHINE,
        **about,
    }
    (path / "run.json").write_text(json.dumps(told), encoding="utf-8")
    metrics = MetricsFile(path)
    metrics.started(start(path))
    for row in rows:
        metrics.logged(row)
    if metrics._file is not None:
        metrics._file.close()
    return path


def timed(path: Path, seconds: float) -> None:
    """As if each row had come so much later than the one before it."""
    lines = [json.loads(line) for line in (path / FILE).read_text(encoding="utf-8").splitlines()]
    for number, line in enumerate(lines, 1):
        line["seconds"] = seconds * number
    (path / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@contextmanager
def trained_by_somebody(path: Path) -> Iterator[None]:
    """While another process trains into it."""
    handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)
