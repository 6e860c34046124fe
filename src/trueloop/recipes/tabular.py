"""tabular: any CSV or Parquet table, with TABLE and --target COLUMN"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Facts, Splits
from trueloop.data.table import read_table, read_target
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["Network", "Reading", "recipe"]

WIDTH: Final = 128  # Of the two hidden layers
STEPS_PER_EPOCH: Final = 50  # The batch size, 16 to 1,024, is chosen for about this many steps


def recipe(table: str, target: str) -> Recipe:
    path = Path(table).absolute()
    column = read_target(path, target)
    wanted = len(column.values) // STEPS_PER_EPOCH
    return Recipe(
        name="tabular",
        model=Network,
        data=Reading(path, target),
        task=column.task,
        epochs=60,
        batch=min(max(16, 1 << wanted.bit_length()), 1024),
        lr=2e-3,
        weight_decay=0.05,
        schedule="cosine",
        clip=None if column.task == "regression" else 1.0,
    )


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """Reads the table."""

    table: Path
    target: str

    def __call__(self, request: DataRequest) -> Splits:
        return read_table(self.table, self.target, seed=request.seed)[1]


@final
class Network(nn.Module):
    """Two hidden layers. For regression the output is scaled by mean and spread of the training targets."""

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
        out: Tensor = self.layers(inputs)
        return out * self.spread + self.mean
