"""Every bundled recipe for a few steps: what is recorded, and what is compared with the record."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, final

import torch

from tests.golden.stand_ins import TARGET, stand_in_for, write_table
from trueloop.engine.assemble import assemble
from trueloop.engine.train import train
from trueloop.hook import Hook, Row
from trueloop.recipe import DataRequest, Recipe
from trueloop.recipes.catalogue import find_recipe

__all__ = ["KINDS", "SHORT", "Kind", "fingerprint", "losses_of", "read_record", "record_file", "short"]

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
"""Recipe -> what is changed so that it takes seconds on one core. Few CPUs have bf16; torch computes it on the others very slowly."""

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
        warmup=min(recipe.warmup, 2),
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
        train(assemble(short(name, folder), DataRequest(data), hooks=heard))
    return heard.losses


def fingerprint() -> dict[str, Any]:
    """What the last bits of a sum may depend on."""
    return {
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def record_file(name: str) -> Path:
    return Path(__file__).parent / f"{name}.json"


def read_record(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(record_file(name).read_text(encoding="utf-8"))
    return record
