"""Samples stay apart: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, blobs, recorded_script, try_recipe, try_script
from trueloop.claims.batch_independence import (
    BATCH_FIRST,
    OVER_BATCH,
    RESHAPED,
    SQUEEZED,
    STATISTICS,
    BatchIndependence,
)
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.event import BatchIndependenceTested, Place
from trueloop.recipe.recipe import DataRequest

NAME = "batch-independence"


def line_of(place: Place) -> str:
    return Path(place.path).read_text(encoding="utf-8").splitlines()[place.line - 1]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Net)
    assert proof.result == "holds"
    assert proof.evidence["gradient"] == 0.0
    assert {"alone", "others"} <= set(proof.evidence)


class OverTheBatch(Net):
    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.body(x), 0)  # the line
        return self.head(weights)  # type: ignore[no-any-return]


def test_a_softmax_over_the_batch(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=OverTheBatch)
    assert proof.result == "fails"
    assert proof.causes[0] == OVER_BATCH
    assert "softmax" in proof.measured
    assert all(float(str(proof.evidence[name])) > 1e-3 for name in ("alone", "others", "gradient"))
    assert proof.place is not None
    assert "# the line" in line_of(proof.place)


def nameless() -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDTH, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.ReLU(), nn.Linear(8, CLASSES)
    )


def test_a_norm_without_statistics_of_its_own(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=nameless)
    assert proof.result == "fails"
    assert proof.causes[0] == STATISTICS
    assert "1 (BatchNorm1d)" in proof.measured


class Mixed(Net):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        return self.head(hidden.t().reshape(len(x), 16))  # type: ignore[no-any-return]


def test_values_that_are_moved_between_samples(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Mixed)
    assert proof.result == "fails"
    assert proof.causes[0] == RESHAPED


class Recurrent(nn.Module):
    batch_first = False

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 8, batch_first=self.batch_first)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.view(-1, WIDTH // 2, 2))[0][:, -1])  # type: ignore[no-any-return]


class BatchFirst(Recurrent):
    batch_first = True


def test_a_recurrent_layer_that_takes_the_batch_for_time(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Recurrent)
    assert proof.result == "fails"
    assert proof.causes[0] == BATCH_FIRST
    assert "lstm (LSTM)" in proof.measured
    assert try_recipe(NAME, tmp_path, model=BatchFirst).result == "holds"


class Squeezing(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).squeeze()


def test_a_batch_of_one_that_loses_its_dimension(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Squeezing)
    assert proof.result == "fails"
    assert proof.causes == (SQUEEZED,)
    assert "[3], not [1, 3]" in proof.measured


class Refusing(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log_softmax(super().forward(x).squeeze(), 1)


def test_a_batch_of_one_that_is_refused(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Refusing)
    assert proof.result == "fails"
    assert "IndexError" in proof.measured


class Noisy(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.randn_like(x))


def test_chance_in_eval_mode_is_another_matter(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Noisy)
    assert proof.result == "unproved"
    assert "evaluation-repeats" in proof.measured


class Tokens(nn.Module):
    """Masked mean over a dictionary of padded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, CLASSES)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        mask = batch["mask"].unsqueeze(-1).float()
        return self.head((self.embed(batch["ids"]) * mask).sum(1) / mask.sum(1))  # type: ignore[no-any-return]


class Dictionaries(Source):
    def __len__(self) -> int:
        return 64

    def fetch(self, numbers: Tensor) -> Batch:
        ids = (numbers[:, None] * 7 + torch.arange(5)) % 20
        return Batch({"ids": ids, "mask": torch.arange(5) <= numbers[:, None] % 5}, numbers % CLASSES)


def test_a_dictionary_of_tokens(tmp_path: Path) -> None:
    proof = try_recipe(
        NAME, tmp_path, model=Tokens, data=lambda _: Splits(train=Dictionaries(), facts=Facts(classes=("a", "b", "c")))
    )
    assert proof.result == "holds"
    assert "gradient" not in proof.evidence


def as_many_classes_as_samples(request: DataRequest) -> Splits:
    splits = blobs(request)
    labels: Any = splits.train.labels()
    return Splits(train=Tensors(torch.randn(len(labels), WIDTH), labels), facts=splits.facts)


def test_as_many_classes_as_samples_are_run(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: nn.Linear(WIDTH, 7), data=as_many_classes_as_samples)
    assert proof.result == "holds"
    assert proof.evidence["samples"] == 5


@pytest.mark.parametrize(
    "changes",
    [{"batch": 2}, {"model": lambda: nn.Sequential(nn.Linear(WIDTH, 3), nn.Flatten(0))}],
    ids=["two samples", "no rows"],
)
def test_what_cannot_be_asked(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert try_recipe(NAME, tmp_path, **changes).result == "unproved"


SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
    def forward(self, x):
        return self.head(torch.softmax(self.body(x), dim={dim}))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(96, 4)
for inputs, labels in DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=16, shuffle=True):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
"""


def test_a_script_with_a_softmax_over_the_batch(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(dim=0))
    assert proof.result == "fails"
    assert proof.place is not None
    assert proof.place.line == 10


def test_a_healthy_script(tmp_path: Path) -> None:
    assert try_script(NAME, tmp_path, SCRIPT.format(dim=1)).result == "holds"


def test_of_a_script_only_what_was_compared_is_judged(tmp_path: Path) -> None:
    def of(*events: BatchIndependenceTested) -> str:
        return BatchIndependence().try_script(recorded_script(tmp_path, *events)).result

    assert of() == "unproved"
    assert of(BatchIndependenceTested(1, None, 0, "Net", 16, 0.0, 0.0, "", None)) == "holds"
    assert (
        of(BatchIndependenceTested(1, None, 0, "Net", 16, 0.5, 0.5, "", None)) == "unproved"
    )  # it draws random numbers
    assert (
        of(BatchIndependenceTested(1, None, 0, "Net", 16, 0.5, 0.0, "", None)) == "unproved"
    )  # it was allowed in a comment
