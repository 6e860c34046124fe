"""A few samples can be learned by heart: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.claims.made import WIDTH, blobs, net, of_recipe
from trueloop.claims.overfit_one_batch import SAME_ANSWER, SAME_INPUTS, WRONG_RATE
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe import DataRequest

NAME = "overfit-one-batch"


def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = of_recipe(NAME, tmp_path)
    assert proof.result == "holds"
    assert float(str(proof.evidence["last_loss"])) < 0.02 * float(str(proof.evidence["first_loss"]))


class Softmaxed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.inner(x), 1)


def test_a_softmax_before_cross_entropy(tmp_path: Path) -> None:
    proof = of_recipe(NAME, tmp_path, model=Softmaxed)
    assert proof.result == "fails"
    assert any("LOS101" in cause.check for cause in proof.causes)


class Blind(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * 0)  # type: ignore[no-any-return]


def test_a_model_that_does_not_look_at_its_input(tmp_path: Path) -> None:
    proof = of_recipe(NAME, tmp_path, model=Blind)
    assert proof.result == "fails"
    assert proof.causes[0] == SAME_ANSWER


def test_a_learning_rate_that_is_too_low_is_named_first(tmp_path: Path) -> None:
    proof = of_recipe(NAME, tmp_path, lr=3e-4)
    assert proof.result == "fails"
    assert proof.causes[0] == WRONG_RATE
    assert "10 times the learning rate" in proof.measured


def equal_inputs(request: DataRequest) -> Splits:
    splits = blobs(request)
    labels: Any = splits.train.labels()
    return Splits(train=Tensors(torch.ones(len(labels), WIDTH), labels), facts=splits.facts)


def test_equal_inputs_with_different_labels(tmp_path: Path) -> None:
    proof = of_recipe(NAME, tmp_path, data=equal_inputs)
    assert proof.result == "fails"
    assert SAME_INPUTS in proof.causes[:2]
