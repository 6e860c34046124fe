"""Evaluating twice gives the same numbers: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.claims.subjects import CLASSES, WIDTH, blobs, try_recipe, try_script
from trueloop.claims.evaluation_repeats import DATA, DRAWS, DROPOUT, MEMORY, MODE, STATE
from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.recipe.recipe import DataRequest
from trueloop.results.proof import Proof

NAME = "evaluation-repeats"


def line_of(proof: Proof) -> str:
    assert proof.place is not None
    return Path(proof.place.path).read_text(encoding="utf-8").splitlines()[proof.place.line - 1]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(self.inner(x), 0.5)


def net(middle: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), middle, nn.Dropout(0.5), nn.Linear(WIDTH, CLASSES)
    )


def test_a_dropout_that_ignores_eval_mode(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Block()))
    assert proof.result == "fails"
    assert (proof.evidence["layer"], proof.evidence["class"]) == ("2", "Block")
    assert proof.causes[0] == DROPOUT
    assert "functional.dropout" in line_of(proof)


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.from_numpy(np.random.normal(size=x.shape)).float()


def test_noise_of_numpys(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Noisy()))
    assert proof.result == "fails"
    assert proof.evidence["layer"] == "2"
    assert proof.causes[0] == DRAWS
    assert "np.random.normal" in line_of(proof)


class Stubborn(nn.Dropout):
    def train(self, mode: bool = True) -> Stubborn:
        return super().train(True)


def test_a_layer_that_stays_in_train_mode(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Stubborn(0.5)))
    assert proof.result == "fails"
    assert proof.causes[0] == MODE
    assert proof.evidence["in_train_mode"] == ["2"]


class Counting(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


def test_a_buffer_that_evaluation_writes(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Counting()))
    assert proof.result == "fails"
    assert proof.causes == (STATE,)
    assert "2.calls" in proof.measured
    assert "class Counting" in line_of(proof)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.before += 1
        return x * self.before


def test_a_layer_that_remembers(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Remembering()))
    assert proof.result == "fails"
    assert proof.causes[0] == MEMORY
    assert proof.evidence["class"] == "Remembering"


class Sampled:
    def __init__(self) -> None:
        self.draws = np.random.default_rng()

    def __len__(self) -> int:
        return 32

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.draws.normal(size=WIDTH)).float(), number % CLASSES


def sampled(request: DataRequest) -> Splits:
    splits = blobs(request)
    return Splits(splits.train, Dataset(Sampled()), facts=splits.facts)


def test_a_metric_over_samples_that_are_drawn_anew(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, data=sampled)
    assert proof.result == "fails"
    assert proof.causes == (DATA,)


class Table(nn.Module):
    """Made in the first forward, and kept."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.linspace(0, 1, WIDTH)
        return x + self.table


def test_healthy_recipes(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, model=lambda: net(Table())).result == "holds"
    assert try_recipe(NAME, tmp_path, ema=0.9, accumulate=2).result == "holds"
    assert (
        try_recipe(NAME, tmp_path, data=lambda request: Splits(blobs(request).train, facts=blobs(request).facts)).result
        == "holds"
    )


SCRIPT = """\
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = F.dropout(torch.relu(self.first(x)), 0.5{mode})
        return self.last(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.arange(32) % 3
for _ in range(4):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        F.cross_entropy(model(x), y)
"""


def test_a_script_whose_dropout_ignores_eval_mode(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(mode=""))
    assert proof.result == "fails"
    assert proof.place is not None
    assert (Path(proof.place.path).name, proof.place.line) == ("train.py", 13)


def test_its_healthy_twin(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(mode=", self.training"))
    assert proof.result == "holds", proof.measured
