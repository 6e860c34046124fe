"""The order of samples is seeded: planted failures and their healthy twins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.claims.subjects import CLASSES, WIDTH, blobs, try_recipe, try_script
from trueloop.claims import repeat_runs
from trueloop.claims.loader_order_is_seeded import OWN, READ, RESEEDED, UNSEEDED
from trueloop.data.dataset import Dataset
from trueloop.data.source import Batch, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest
from trueloop.results.proof import Proof

NAME = "loader-order-is-seeded"


def line_of(proof: Proof) -> str:
    assert proof.place is not None
    return Path(proof.place.path).read_text(encoding="utf-8").splitlines()[proof.place.line - 1]


def shuffled(request: DataRequest, draws: Callable[[int], Any] = np.random.permutation) -> Splits:
    splits = blobs(request)
    batch = splits.train.fetch(torch.as_tensor(draws(96)))
    return Splits(Tensors(batch.inputs, batch.targets), facts=splits.facts)


def shuffled_anew(request: DataRequest) -> Splits:
    return shuffled(request, np.random.default_rng().permutation)


def test_data_that_are_shuffled_without_a_seed_when_they_are_read(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, data=shuffled_anew)
    assert proof.result == "fails"
    assert proof.causes == (READ,)
    assert "def shuffled_anew" in line_of(proof)


def test_data_that_are_shuffled_by_a_global_generator_are_seeded_by_the_run(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, data=shuffled).result == "holds"


class Drawing:
    def __init__(self) -> None:
        self.draws = np.random.default_rng()

    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        chosen = int(self.draws.integers(64))
        return torch.full((WIDTH,), float(chosen)), chosen % CLASSES


def test_a_dataset_that_draws_by_a_generator_of_its_own(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, data=lambda request: Splits(Dataset(Drawing()), facts=blobs(request).facts))
    assert proof.result == "fails"
    assert proof.causes == (OWN,)
    assert "class Drawing" in line_of(proof)


class SameRows(Source):
    def __len__(self) -> int:
        return 64

    def fetch(self, numbers: Tensor) -> Batch:
        rows = torch.arange(len(numbers))
        return Batch(rows[:, None].expand(-1, WIDTH).float(), rows % CLASSES)


def test_a_source_that_does_not_look_at_the_numbers(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, data=lambda request: Splits(SameRows(), facts=blobs(request).facts))
    assert proof.result == "fails"
    assert "second epoch" in proof.measured
    assert "class SameRows" in line_of(proof)


def test_healthy_recipes(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path).result == "holds"
    assert try_recipe(NAME, tmp_path, where="loader", accumulate=2, balanced=True).result == "holds"


SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{seed}
x = torch.arange(256.0).reshape(64, 4) / 256
y = (torch.arange(64) * 7) % 3
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=8{shuffle})
for _ in range(3):
    {again}
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
"""
HEALTHY = {"seed": "torch.manual_seed(0)", "shuffle": ", shuffle=True", "again": "pass"}


@pytest.fixture
def same_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children with the hashes of this process: they need not be started afresh."""
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    monkeypatch.setattr(repeat_runs, "HASH_SEED", {})


@pytest.mark.usefixtures("same_hashes")
def test_a_script_without_a_seed(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(**{**HEALTHY, "seed": ""}))
    assert proof.result == "fails"
    assert proof.causes[0] == UNSEEDED
    assert proof.place is not None
    assert proof.place.line == 12


@pytest.mark.usefixtures("same_hashes")
def test_a_script_that_seeds_before_each_epoch(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(**{**HEALTHY, "again": "torch.manual_seed(0)"}))
    assert proof.result == "fails"
    assert proof.causes == (RESEEDED,)
    assert proof.place is not None
    assert proof.place.line == 12


@pytest.mark.usefixtures("same_hashes")
def test_its_healthy_twin(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(**HEALTHY))
    assert proof.result == "holds", proof.measured
    assert proof.evidence["batches"] == 24


@pytest.mark.usefixtures("same_hashes")
def test_a_script_that_reads_in_order_and_one_that_makes_one_pass(tmp_path: Path) -> None:
    once = SCRIPT.replace("range(3)", "range(1)").format(**HEALTHY)
    proof = try_script(NAME, tmp_path, once)
    assert (proof.result, "only one epoch" in proof.measured) == ("unproved", True)
    (tmp_path / "other").mkdir()
    proof = try_script(NAME, tmp_path / "other", SCRIPT.format(**{**HEALTHY, "shuffle": ""}))
    assert (proof.result, "in stored order" in proof.measured) == ("unproved", True)
