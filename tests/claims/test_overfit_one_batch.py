"""A few samples can be learned by heart: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.claims.subjects import WIDTH, Blind, blobs, net, try_recipe
from trueloop.claims.overfit_one_batch import SAME_INPUTS, SAME_OUTPUT, WRONG_RATE
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest

NAME = "overfit-one-batch"


def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path)
    assert proof.result == "holds"
    assert float(str(proof.evidence["last_loss"])) < 0.02 * float(str(proof.evidence["first_loss"]))


class Softmaxed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.inner(x), 1)


def test_a_softmax_before_cross_entropy(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Softmaxed)
    assert proof.result == "fails"
    assert any("LOS101" in cause.check for cause in proof.causes)


def test_a_model_that_does_not_look_at_its_input(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Blind)
    assert proof.result == "fails"
    assert proof.causes[0] == SAME_OUTPUT


def test_a_learning_rate_that_is_too_low_is_named_first(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, lr=3e-4)
    assert proof.result == "fails"
    assert proof.causes[0] == WRONG_RATE
    assert "10 times the learning rate" in proof.measured


def equal_inputs(request: DataRequest) -> Splits:
    splits = blobs(request)
    labels: Any = splits.train.labels()
    return Splits(train=Tensors(torch.ones(len(labels), WIDTH), labels), facts=splits.facts)


def test_equal_inputs_with_different_labels(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, data=equal_inputs)
    assert proof.result == "fails"
    assert SAME_INPUTS in proof.causes[:2]


class Dropping(nn.Module):
    """Dropout that no layer of the model's does."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(torch.relu(self.body(x)), 0.8, self.training))  # type: ignore[no-any-return]


def test_dropout_by_a_function_is_off(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, model=Dropping).result == "holds"


def below_zero(output: Tensor, targets: Tensor) -> Tensor:
    return -output.gather(1, targets[:, None]).squeeze(1) - 5


def test_a_loss_that_begins_below_zero_says_nothing(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, loss=below_zero).result == "unproved"


def equal_masks(request: DataRequest) -> Splits:
    """The first tensor of each sample is the same for all; the second tells them apart."""
    train: Any = blobs(request).train
    batch = train.fetch(torch.arange(len(train)))
    return Splits(
        train=Tensors(torch.cat([torch.ones(len(train), 2), batch.inputs], 1), batch.targets),
        facts=blobs(request).facts,
    )


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        return self.head(x["values"]) * 0  # type: ignore[no-any-return]


def as_dictionary(request: DataRequest) -> Splits:
    splits = equal_masks(request)
    prepare: Any = lambda inputs: {"mask": inputs[:, :2], "values": inputs[:, 2:]}  # noqa: E731 - what a recipe may write
    return Splits(train=splits.train, facts=splits.facts, prepare=prepare)


def test_a_mask_that_is_equal_for_all_is_no_equal_input(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, data=as_dictionary, model=Masked)
    assert proof.result == "fails"
    assert proof.evidence["samples_with_equal_inputs"] == 0
    assert proof.causes[0] == SAME_OUTPUT
