"""A script that ends itself at a non-finite loss: the cause is still named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Checked

DIVERGING = """\
import sys

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(512, 10)
y = x @ torch.randn(10, 1)


def train():
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    for step in range(60):
        rows = torch.randint(0, 512, (64,))
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        {guard}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()
"""
GUARDS = [
    'assert torch.isfinite(loss), "no longer finite"',
    'if not torch.isfinite(loss).all(): raise RuntimeError(f"loss is {loss.item()}")',
    'if loss.item() in (float("inf"), float("nan")): sys.exit("bad loss")',
    "if loss.isinf(): sys.exit(3)",
]


@pytest.mark.parametrize("guard", GUARDS)
def test_a_divergence_behind_a_guard(check: Callable[..., Checked], guard: str) -> None:
    result = check(DIVERGING.replace("{guard}", guard))
    assert result.names() == {"loss-diverges"}, result.output


def test_the_operation_behind_a_guard(check: Callable[..., Checked]) -> None:
    result = check("""\
import math
import sys

import torch
from torch import nn

torch.manual_seed(0)
x = torch.rand(64, 10)
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    total = torch.log(model(x) - 0.5).pow(2).mean()
    if math.isnan(total.item()):
        sys.exit(1)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
""")
    assert result.at() == {("nan-or-inf", 12)}


def test_bad_samples_behind_a_guard(check: Callable[..., Checked]) -> None:
    result = check("""\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.rand(512, 10)
y = x[:, :1].clone()
x[77, 3] = float("nan")
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
    loss = nn.functional.mse_loss(model(inputs), targets)
    if loss != loss:
        raise ValueError("nan")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")
    assert "nan-or-inf-in-inputs" in result.names()


@pytest.mark.parametrize("ending", ["sys.exit(0)", 'raise SystemExit("enough")', "undefined_name"])
def test_another_end_with_finite_losses_says_nothing_of_them(check: Callable[..., Checked], ending: str) -> None:
    text = DIVERGING.replace("lr=5.0", "lr=0.01").replace("{guard}", f"if step == 20: {ending}")
    assert not {"loss-diverges", "nan-or-inf"} & check(text).names()
