"""A batch in parts gives the gradient of the whole: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, try_recipe
from trueloop.claims.large_batch_equals_accumulated import DIVISOR, MIXED, SUMS
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors

NAME = "large-batch-equals-accumulated"


def one_each(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output, targets, reduction="none")


def mean(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output, targets)


@pytest.mark.parametrize("loss", [None, one_each, mean])
def test_a_healthy_recipe(tmp_path: Path, loss: Any) -> None:
    proof = try_recipe(NAME, tmp_path, loss=loss)
    assert proof.result == "holds"
    assert set(proof.evidence["differences"]) == {2, 4}  # type: ignore[call-overload]
    assert proof.evidence["mode"] == "train"


def summed(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output, targets, reduction="sum")


def test_a_loss_that_adds_up(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, loss=summed)
    assert proof.result == "fails"
    assert proof.causes[0] == SUMS
    assert "in 2 parts by 50.0%" in proof.measured
    assert "in 4 parts by 75.0%" in proof.measured


def of_the_valid(output: Tensor, targets: Tensor) -> Tensor:
    valid = targets > 0
    return (F.cross_entropy(output, targets, reduction="none") * valid).sum() / valid.sum().clamp(min=1)


def test_a_loss_that_divides_by_what_it_keeps(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, loss=of_the_valid)
    assert proof.result == "fails"
    assert proof.causes[0] == DIVISOR


def weighted(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output, targets, weight=torch.tensor([1.0, 5.0, 1.0]))


def test_weights_of_classes(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, loss=weighted).result == "fails"


def against_each_other(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output @ output.t(), torch.arange(len(output)))


def test_a_contrastive_loss(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, loss=against_each_other).result == "fails"


class Together(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x - x.mean(0))  # type: ignore[no-any-return]


def test_a_layer_that_looks_at_samples_together(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Together)
    assert proof.result == "fails"
    assert proof.causes == (MIXED,)


def with_batch_norm(**options: Any) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.BatchNorm1d(16, **options), nn.ReLU(), nn.Linear(16, CLASSES))


def test_batch_norm_is_held_still_and_told_of(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: with_batch_norm())
    assert proof.result == "holds"
    assert "smaller parts" in proof.measured
    alone = proof.evidence["differences_with_batch_norm"]
    assert isinstance(alone, dict)
    assert min(alone.values()) > 1e-3


def test_batch_norm_does_not_hide_a_wrong_loss(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, model=lambda: with_batch_norm(), loss=summed).result == "fails"


def test_batch_norm_without_statistics_of_its_own(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: with_batch_norm(track_running_stats=False))
    assert proof.result == "unproved"
    assert "1 (BatchNorm1d)" in proof.measured


class Dropping(nn.Module):
    """Every way to drop that torch has."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(1, 8)
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
        self.lstm = nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(self.lstm(self.attention(self.lift(x.unsqueeze(-1))))[0], 0.5, self.training)
        hidden = F.scaled_dot_product_attention(hidden, hidden, hidden, dropout_p=0.5 if self.training else 0.0)
        return self.head(F.alpha_dropout(hidden[:, -1], 0.5, self.training))  # type: ignore[no-any-return]


def test_dropout_of_every_kind_is_off(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Dropping)
    assert proof.result == "holds"
    assert proof.evidence["mode"] == "train"


class StochasticDepth(nn.Module):
    always = False

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.rand(len(x), 1) if self.training or self.always else 0.5
        return self.inner(x) * kept  # type: ignore[no-any-return]


class Random(StochasticDepth):
    always = True


def test_chance_of_other_kinds(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=StochasticDepth)
    assert proof.result == "holds"
    assert proof.evidence["mode"] == "eval"
    assert try_recipe(NAME, tmp_path, model=Random).result == "unproved"


def test_batches_that_cannot_be_parted_evenly(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, batch=7).result == "holds"
    assert try_recipe(NAME, tmp_path, batch=1).result == "unproved"


def test_a_batch_that_is_larger_than_the_data_is_parted_too(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, batch=1000).evidence["samples"] == 96
    assert try_recipe(NAME, tmp_path, batch=1000, loss=summed).result == "fails"


def padded(_: Any) -> Splits:
    """Sequences of different lengths: each part holds another number of tokens that count."""
    tokens = torch.arange(32 * 6).reshape(32, 6) % 11
    targets = torch.where(torch.arange(6) <= torch.arange(32)[:, None] % 6, tokens.roll(-1, 1), -100)
    return Splits(train=Tensors(tokens, targets), facts=Facts(vocabulary=11, ignore=-100))


def test_padding_that_does_not_count(tmp_path: Path) -> None:
    model = nn.Sequential
    proof = try_recipe(
        NAME, tmp_path, task="language", data=padded, model=lambda: model(nn.Embedding(11, 8), nn.Linear(8, 11))
    )
    assert proof.result == "holds"
