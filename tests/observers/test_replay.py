"""The counterfactual replays leave no trace: same losses, same weights, same random numbers, nothing printed, nothing
called."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Checked

SCRIPT = """
import random
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
WATCHED = "trueloop" in sys.modules


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.first = nn.utils.spectral_norm(nn.Linear(6, 8))
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(8, 3)
        self.calls = 0
        self.kept = []
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        self.seen += 1
        print("forward", self.calls)
        h = self.dropout(torch.relu(self.first(self.norm(x))))
        h = h + 0.01 * random.random() + 0.01 * np.random.rand()
        self.kept.append(h)
        return self.head(h + 0.01 * torch.randn_like(h))


model = Net()
hooked = []
model.head.register_forward_hook(lambda *_: hooked.append(1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(96, 6), torch.randint(0, 3, (96,)))
losses = []
for x, y in DataLoader(data, batch_size=12, shuffle=True):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
assert model.calls == len(hooked) == len(model.kept) == int(model.seen) == 8
total = [float(t.double().sum()) for t in (*losses, *model.state_dict().values())]
print(total, random.random(), np.random.rand(), torch.rand(1).item(), torch.is_autocast_cache_enabled())
"""


@pytest.fixture
def plain(check: Callable[..., Checked]) -> str:
    """What the script prints when no replay is asked for."""
    return check(SCRIPT, select=["GRD101"]).output


def test_a_watched_run_prints_and_computes_the_same(check: Callable[..., Checked], plain: str) -> None:
    checked = check(SCRIPT, select=["MDL", "LOS107", "OPT101", "OPT102"])
    assert not checked.verdict.failures
    assert not checked.findings
    judged = {entry.code for entry in checked.verdict.not_applicable}
    assert "MDL108" not in judged, "the question was asked"
    assert checked.output == plain


GENERATOR = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
chance = torch.Generator().manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.softmax(x, 0) + torch.randn(x.shape, generator=chance))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(TensorDataset(torch.randn(60, 6), torch.randint(0, 3, (60,))), batch_size=12):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
print(torch.rand(1, generator=chance).item())
"""


def test_a_generator_of_the_users_own_is_never_drawn_from(check: Callable[..., Checked]) -> None:
    checked = check(GENERATOR, select=["MDL108"])
    assert checked.output == check(GENERATOR, select=["GRD101"]).output
    assert [entry.code for entry in checked.verdict.not_applicable] == ["MDL108"]


@pytest.mark.parametrize("statement", ["global steps; steps += 1", "assert self.training"])
def test_a_forward_that_cannot_be_repeated_is_left_alone(check: Callable[..., Checked], statement: str) -> None:
    script = GENERATOR.replace("chance = ", "steps = 0\nchance = ").replace(
        "        return self.head(torch.softmax(x, 0) + torch.randn(x.shape, generator=chance))",
        f"        {statement}\n        return self.head(torch.softmax(x, 0))",
    )
    checked = check(script, select=["MDL108"])
    assert checked.verdict.outcome.reason == "finished", checked.output
    assert not checked.verdict.failures
    assert [entry.code for entry in checked.verdict.not_applicable] == ["MDL108"]
