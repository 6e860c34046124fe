"""Every trainable weight is in the optimizer: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.claims.subjects import try_recipe, try_script

NAME = "optimizer-holds-every-parameter"


def all_but_the_last(groups: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([parameter for group in groups for parameter in group["params"]][:-1], lr=lr)


def all_of_them(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(list(parameters), lr=lr)


def test_a_recipe_whose_optimizer_leaves_out_a_weight(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, optimizer=all_but_the_last)
    assert proof.result == "fails"
    assert "3 of 4" in proof.measured
    assert proof.evidence["missing"] == {"3.bias": 3}
    assert proof.causes


def test_a_recipe_whose_optimizer_holds_all(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, optimizer=all_of_them).result == "holds"
    assert try_recipe(NAME, tmp_path).result == "holds"


SCRIPT = """\
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model{part}.parameters(), lr=0.01)
x = torch.randn(16, 4)
for _ in range(20):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
"""


def test_a_script_that_hands_over_a_part(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(part="[0]"))
    assert proof.result == "fails"
    assert proof.place is not None
    assert proof.place.line == 5


def test_a_script_that_hands_over_all(tmp_path: Path) -> None:
    assert try_script(NAME, tmp_path, SCRIPT.format(part="")).result == "holds"


def test_a_script_that_trains_nothing(tmp_path: Path) -> None:
    assert try_script(NAME, tmp_path, "print('hello')\n").result == "unproved"
