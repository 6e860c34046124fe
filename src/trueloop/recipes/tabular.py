"""tabular: any CSV or Parquet table with a header. `trueloop train tabular data.csv --target y`; the target column
decides the task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Facts, Splits
from trueloop.data.table import read_table, read_target
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["Network", "Reading", "recipe"]

WIDTH: Final = 128
"""Of the two hidden layers: wide enough for the tables that fit a spreadsheet, seconds on a CPU."""
STEPS_IN_AN_EPOCH: Final = 50
"""What the batch is chosen for, between 16 and 1,024 samples: small tables get enough steps, large ones do not take
hours."""


def recipe(table: str, target: str) -> Recipe:
    path = Path(table).absolute()
    aim = read_target(path, target)
    wanted = len(aim.values) // STEPS_IN_AN_EPOCH
    return Recipe(
        name="tabular",
        model=Network,
        data=Reading(path, target),
        task=aim.task,
        epochs=60,
        batch=min(max(16, 1 << wanted.bit_length()), 1024),
        lr=2e-3,
        weight_decay=0.05,
        schedule="cosine",
        clip=None if aim.task == "regression" else 1.0,
    )


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """Reads this table for this target."""

    table: Path
    target: str

    def __call__(self, request: DataRequest) -> Splits:
        return read_table(self.table, self.target, seed=request.seed)[1]


@final
class Network(nn.Module):
    """Two hidden layers. Quantities are answered in their own unit: the last layer's answer is scaled by what the
    training rows hold."""

    mean: Tensor
    spread: Tensor

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(facts.inputs[0], WIDTH),
            nn.SiLU(),
            nn.Dropout(0.2),
            nn.Linear(WIDTH, WIDTH),
            nn.SiLU(),
            nn.Dropout(0.2),
            nn.Linear(WIDTH, facts.outputs),
        )
        self.register_buffer("mean", torch.tensor(float(facts.more.get("mean", 0.0))))
        self.register_buffer("spread", torch.tensor(float(facts.more.get("spread", 1.0))))

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.layers(inputs)
        return answer * self.spread + self.mean
