"""Every bundled recipe for a few steps: what is recorded, and what is compared with the record."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast, final

import torch

from tests.golden.stand_ins import TARGET, stand_in_for, write_table
from trueloop.engine.loop import Loop
from trueloop.engine.train import train
from trueloop.hook import Hook, Row
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes.catalogue import find_recipe

__all__ = [
    "KINDS",
    "SHORT",
    "Kind",
    "fingerprint",
    "losses_of",
    "read_record",
    "record_file",
    "short",
    "twice_in_a_fresh_process",
]

ROOT = Path(__file__).parent.parent.parent

Kind = Literal["real", "stand-in"]
"""On which data: those the recipe is for, or small made-up ones in the same files."""

SHORT: Mapping[str, Mapping[str, Any]] = {
    "digits": {"steps": 20},
    "fashion-mlp": {"steps": 20},
    "fashion-cnn": {"steps": 4, "batch": 16},
    "mnist": {"steps": 4, "batch": 16},
    "sentiment": {"steps": 20},
    "shakespeare": {"steps": 3, "batch": 2, "precision": "fp32"},
    "shakespeare-tiny": {"steps": 8},
    "tabular": {"steps": 20},
}
"""Recipe -> what is changed so that it takes seconds on one core. Few CPUs have bf16; torch computes it on the others
very slowly."""

KINDS: Mapping[str, tuple[Kind, ...]] = {"digits": ("real",), "tabular": ("stand-in",)}
"""digits come with scikit-learn, and tabular has no data of its own; the others have both."""


def short(name: str, folder: Path) -> Recipe:
    """The recipe, cut short: no evaluation, which is slow and changes nothing in the losses."""
    recipe = find_recipe(name, {"table": str(write_table(folder)), "target": TARGET} if name == "tabular" else {})
    return replace(
        recipe,
        data=lambda request: replace(recipe.data(request), valid=None, test=None),
        epochs=None,
        deterministic=True,
        device="cpu",
        log_every=1,
        statistics_every=0,
        warmup=2 if recipe.warmup else 0,
        trackers=(),
        **SHORT[name],
    )


@final
class _Losses(Hook):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.losses.append(row.values["loss"])


def losses_of(name: str, kind: Kind) -> list[float]:
    """The loss of each step."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        heard = _Losses()
        data = Path(os.environ["TRUELOOP_DATA"]) if kind == "real" and name not in KINDS else stand_in_for(name, folder)
        train(Loop.of(short(name, folder), DataRequest(data), hooks=heard))
    return heard.losses


def twice_in_a_fresh_process(name: str, kind: Kind) -> list[list[float]]:
    """Two runs, one after the other, in a process that has done nothing else: what tests before it have set up is no
    part of a recipe."""
    command = [sys.executable, "-m", "tests.golden.short_runs", name, kind]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [[float.fromhex(loss) for loss in losses] for losses in json.loads(done.stdout.splitlines()[-1])]


def fingerprint() -> dict[str, Any]:
    """What the last bits of a sum may depend on."""
    return {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "model": _cpu_model(),
    }


def _cpu_model() -> str:
    """Which processor: one with other instructions takes other kernels. What it can do is shortened to a hash."""
    told = Path("/proc/cpuinfo")
    if not told.is_file():
        return platform.processor()
    words = ("model name", "CPU implementer", "CPU part", "CPU variant", "flags", "Features")
    lines = {line for line in told.read_text(encoding="utf-8").splitlines() if line.startswith(words)}
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]


def record_file(name: str) -> Path:
    return Path(__file__).parent / f"{name}.json"


def read_record(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(record_file(name).read_text(encoding="utf-8"))
    return record


if __name__ == "__main__":
    torch.set_num_threads(1)
    of = sys.argv[1], cast(Kind, sys.argv[2])
    print(json.dumps([[loss.hex() for loss in losses_of(*of)] for _ in range(2)]))
