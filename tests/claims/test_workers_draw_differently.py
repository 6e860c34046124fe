"""Workers and epochs draw different numbers: planted failures and their healthy twins."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.claims.subjects import CLASSES, WIDTH, blobs, try_recipe, try_script
from trueloop.claims.workers_draw_differently import AUGMENT, OWN, SEEDS
from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.recipe.recipe import DataRequest
from trueloop.results.proof import Proof

NAME = "workers-draw-differently"


def line_of(proof: Proof) -> str:
    assert proof.place is not None
    return Path(proof.place.path).read_text(encoding="utf-8").splitlines()[proof.place.line - 1]


class Rows:
    def __init__(self) -> None:
        self.draws = np.random.default_rng(0)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return torch.full((WIDTH,), number / 64) + self.noise(number), number % CLASSES

    def noise(self, number: int) -> Tensor:
        return torch.rand(WIDTH)


class OwnGenerator(Rows):
    def noise(self, number: int) -> Tensor:
        return torch.from_numpy(self.draws.normal(size=WIDTH)).float()


class Seeding(Rows):
    def noise(self, number: int) -> Tensor:
        random.seed(0)
        return torch.full((WIDTH,), random.random())


class SeedingByNumber(Rows):
    def noise(self, number: int) -> Tensor:
        random.seed(number)
        return torch.full((WIDTH,), random.random())


def proved(folder: Path, rows: Rows, augment: Any = None) -> Proof:
    def read(request: DataRequest) -> Splits:
        return Splits(Dataset(rows), facts=blobs(request).facts, augment=augment)

    return try_recipe(NAME, folder, data=read)


def test_a_generator_that_each_worker_gets_a_copy_of(tmp_path: Path) -> None:
    proof = proved(tmp_path, OwnGenerator())
    assert proof.result == "fails"
    assert proof.causes == (OWN,)
    assert "class OwnGenerator" in line_of(proof)


def test_a_seed_that_is_set_for_each_sample(tmp_path: Path) -> None:
    proof = proved(tmp_path, Seeding())
    assert proof.result == "fails"
    assert proof.causes == (SEEDS,)
    assert "random.seed(0)" in line_of(proof)


@pytest.mark.parametrize(("rows", "draws"), [(Rows, True), (SeedingByNumber, False)])
def test_healthy_datasets(tmp_path: Path, rows: type[Rows], draws: bool) -> None:
    proof = proved(tmp_path, rows())
    assert proof.result == "holds", proof.measured
    assert proof.evidence["random"] is draws


OWN_DRAWS = torch.Generator().manual_seed(0)


def of_its_own(inputs: Tensor, draws: torch.Generator) -> Tensor:
    return inputs + torch.rand(inputs.shape, generator=OWN_DRAWS)


def test_augmentations(tmp_path: Path) -> None:
    proof = proved(tmp_path, SeedingByNumber(), of_its_own)
    assert proof.result == "fails"
    assert proof.causes == (AUGMENT,)
    assert "def of_its_own" in line_of(proof)
    healthy = proved(
        tmp_path, SeedingByNumber(), lambda inputs, draws: inputs + torch.rand(inputs.shape, generator=draws)
    )
    assert healthy.result == "holds"
    assert healthy.evidence["random"] is True


SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(0)


class Rows(Dataset):
    def __init__(self):
        self.draws = np.random.default_rng(0)

    def __len__(self):
        return 32

    def __getitem__(self, number):
        return torch.from_numpy({noise}).float() + number, torch.tensor([float(number % 2)])


if __name__ == "__main__":
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(2):
        for x, y in DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
"""


def test_a_script_whose_workers_share_a_generator(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(noise="self.draws.normal(size=4)"))
    assert proof.result == "fails", proof.measured
    assert proof.causes == (OWN,)
    assert proof.place is not None
    assert (Path(proof.place.path).name, proof.place.line) == ("train.py", 10)


def test_its_healthy_twin(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(noise="np.random.normal(size=4)"))
    assert proof.result == "holds", proof.measured
