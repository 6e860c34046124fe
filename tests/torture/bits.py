"""Everything that must be the same at the end of a run, bit for bit, and where two runs differ."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.store import Folder
from trueloop.track.metrics import read_rows

__all__ = ["differences", "remains"]

TIMES: Final = {"samples_per_second", "steps_per_second", "data_wait", "memory_mb", "seconds"}
"""Metrics that measure the machine, not the training."""


def remains(run: Path) -> dict[str, Any]:
    """What a run has left: its last and its best checkpoint, all its metrics, and its result."""
    store = Folder(run / "checkpoints")
    last, best = store.names()[-1], store.best()
    kept = {"last": last} | ({"best": best} if best else {})
    contents = {f"{which} checkpoint": read_contents(store, name) for which, name in kept.items()}
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return {
        "names": kept,
        **{
            which: {"about": dict(each.about), **each.weights, "training": each.training}
            for which, each in contents.items()
        },
        "metrics": [
            (
                row.kind,
                row.step,
                row.epoch,
                row.best,
                {name: value for name, value in row.values.items() if name not in TIMES},
            )
            for row in read_rows(run)
        ],
        "result": {key: about.get(key) for key in ("status", "step", "best", "best_step", "metric", "test")},
    }


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Where they are not the same, down to the last bit and the type."""
    if type(one) is not type(other):
        yield f"{place}: {type(one).__name__} and {type(other).__name__}"
    elif isinstance(one, Tensor):
        if one.dtype != other.dtype or one.shape != other.shape or not torch.equal(_raw(one), _raw(other)):
            yield f"{place}: tensors differ"
    elif isinstance(one, Mapping):
        if set(one) != set(other):
            yield f"{place}: {sorted(set(one) ^ set(other), key=str)} is in one only"
        else:
            for key in one:
                yield from differences(one[key], other[key], f"{place}/{key}")
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            yield f"{place}: {len(one)} and {len(other)} entries"
        else:
            for number, pair in enumerate(zip(one, other, strict=True)):
                yield from differences(*pair, f"{place}[{number}]")
    elif one != other and not (isinstance(one, float) and math.isnan(one) and math.isnan(other)):
        yield f"{place}: {one!r} and {other!r}"


def _raw(tensor: Tensor) -> Tensor:
    """As bytes: NaN equals itself, and 0.0 is not -0.0."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
