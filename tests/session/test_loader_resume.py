"""A loader whose batch size is not the recipe's default: resumed late, the run is as long as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import trueloop
from trueloop.hook import Hook, Row
from trueloop.recipe.recipe import Recipe


def read() -> Any:
    rows = torch.randn(240, 4, generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(rows, (rows[:, 0] > 0).long()), batch_size=32)


class Interrupt(Hook):
    def __init__(self, step: int) -> None:
        self.step = step

    def logged(self, row: Row) -> None:
        if row.kind == "train" and row.step == self.step:
            raise RuntimeError("stopped here")


@pytest.mark.parametrize("step", [11, 21, 36])
def test_a_resumed_run_takes_all_its_steps(step: int, tmp_path: Path) -> None:
    recipe = Recipe(
        name="late", model=lambda: nn.Linear(4, 2), data=read, epochs=5, save_every=5, log_every=1, device="cpu",
        trackers=(),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="stopped here"):
        trueloop.train(recipe, runs=tmp_path, hooks=(Interrupt(step),))
    over = trueloop.resume(recipe, tmp_path / "late", hooks=())
    assert (over.ending.reason, over.ending.step) == ("finished", 40)
