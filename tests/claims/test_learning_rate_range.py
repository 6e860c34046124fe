"""The learning rate is one of use: planted failures, their healthy twins, and curves made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from torch import nn

from tests.claims.subjects import WIDTH, Blind, blobs, try_recipe
from trueloop.claims.learning_rate_range import HIGH, LOW, read_curve
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest

NAME = "learning-rate-range"


@pytest.mark.parametrize(("optimizer", "lr"), [("adamw", 1e-2), ("momentum", 1e-2), ("sgd", 1e-1)])
def test_a_healthy_recipe(tmp_path: Path, optimizer: str, lr: float) -> None:
    proof = try_recipe(NAME, tmp_path, optimizer=optimizer, lr=lr)
    assert proof.result == "holds"
    recommended = proof.evidence["recommended"]
    assert isinstance(recommended, tuple)
    assert recommended[0] < recommended[1] < float(str(proof.evidence["diverges"]))
    assert len(proof.evidence["rates"]) == len(proof.evidence["losses"])  # type: ignore[arg-type]


def test_a_rate_that_is_too_high(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, lr=3.0)
    assert proof.result == "fails"
    assert proof.causes[0] == HIGH
    assert "too high" in proof.measured


def test_a_rate_that_is_too_low(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, lr=1e-6)
    assert proof.result == "fails"
    assert proof.causes[0] == LOW
    assert "too low" in proof.measured


def test_the_recommended_rates_hold(tmp_path: Path) -> None:
    recommended = try_recipe(NAME, tmp_path, lr=1e-6).evidence["recommended"]
    assert isinstance(recommended, tuple)
    for lr in recommended:
        assert try_recipe(NAME, tmp_path, lr=lr).result == "holds"
        assert try_recipe("overfit-one-batch", tmp_path, lr=lr).result == "holds"


def test_a_model_that_cannot_learn(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Blind)
    assert proof.result == "unproved"
    assert "overfit-one-batch" in proof.measured


def unscaled(request: DataRequest) -> Splits:
    train: Any = blobs(request).train
    batch = train.fetch(torch.arange(len(train)))
    return Splits(train=Tensors(batch.inputs * 1e4, batch.inputs.sum(1, keepdim=True) * 1e4))


def test_data_far_from_the_usual_scale(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "data": unscaled,
        "model": lambda: nn.Linear(WIDTH, 1),
        "task": "regression",
        "optimizer": "sgd",
    }
    assert try_recipe(NAME, tmp_path, lr=1e-2, **changes).result == "fails"
    assert try_recipe(NAME, tmp_path, lr=1e-9, **changes).result == "holds"


# -- curves made by hand --

RATES = [1e-7 * 10 ** (step / 10) for step in range(81)]


def curve(shape: Callable[[float], float], noise: float, seed: int = 0) -> list[float]:
    draw = Random(seed)
    return [shape(rate) + draw.gauss(0, noise) for rate in RATES]


def usual(rate: float) -> float:
    """2.3, falling around 1e-3 to 0.3, and up again from 0.3 on."""
    return 0.3 + 2.0 / (1 + math.pow(rate / 1e-3, 1.5)) + math.pow(rate / 0.3, 2)


@pytest.mark.parametrize("seed", range(20))
def test_a_usual_curve_is_read_under_noise(seed: int) -> None:
    read = read_curve(RATES, curve(usual, 0.1, seed))
    assert read is not None
    assert 3e-4 < read.steepest < 3e-3
    assert read.diverges is not None
    assert 0.2 < read.diverges < 1.0


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_fall(seed: int) -> None:
    assert read_curve(RATES, curve(lambda _: 2.3, 0.1, seed)) is None


def test_a_loss_that_becomes_no_number_has_diverged() -> None:
    losses = [loss for rate, loss in zip(RATES, curve(usual, 0.01), strict=True) if rate < 0.1]
    read = read_curve(RATES, [*losses, math.nan])
    assert read is not None
    assert read.diverges == RATES[len(losses)]
    assert read.recommended[1] <= read.diverges / 3


def test_a_loss_that_never_diverges() -> None:
    read = read_curve(RATES, curve(lambda rate: 0.3 + 2.0 / (1 + rate / 1e-3), 0.01))
    assert read is not None
    assert read.diverges is None


def test_a_loss_that_cannot_rise_above_its_beginning() -> None:
    read = read_curve(RATES, curve(lambda rate: min(2.3, usual(rate)), 0.05))
    assert read is not None
    assert read.diverges is not None


def test_a_curve_of_a_few_points_says_nothing() -> None:
    assert read_curve(RATES[:5], [1.0, 1.0, 1.0, 9.0, math.inf]) is None
