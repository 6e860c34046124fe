"""Healthy recipes that a probe once failed: a loss with a floor, a forward that draws, a bias that a norm cancels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trueloop.claims.batch_result import BatchResult, compare
from trueloop.claims.eager_and_compiled_agree import EagerAndCompiledAgree
from trueloop.claims.evaluation_repeats import EvaluationRepeats
from trueloop.claims.overfit_one_batch import OverfitOneBatch
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest, Recipe


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.mean, self.spread = nn.Linear(32, 4), nn.Linear(32, 4)
        self.decode = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.encode(inputs)
        mean, spread = self.mean(hidden), self.spread(hidden)
        return self.decode(mean + torch.randn_like(mean) * (0.5 * spread).exp()), mean, spread


def elbo(output: tuple[Tensor, Tensor, Tensor], targets: Tensor) -> Tensor:
    built, mean, spread = output
    return ((built - targets) ** 2).sum(1) - 0.5 * (1 + spread - mean**2 - spread.exp()).sum(1)


class Constant(nn.Module):
    """Ignores its input."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = nn.Parameter(torch.zeros(16))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.answer + 0 * inputs


def data(request: DataRequest) -> Splits:
    draws = torch.Generator().manual_seed(0)
    rows = torch.randn(64, 4, generator=draws) @ torch.randn(4, 16, generator=draws)
    return Splits(Tensors(rows[:48], rows[:48]), Tensors(rows[48:], rows[48:]))


def subject(tmp_path: Path, model: Any, loss: Any) -> RecipeSubject:
    recipe = Recipe("mine", model=model, data=data, loss=loss, epochs=2, batch=16, lr=3e-3, device="cpu", trackers=())
    return RecipeSubject(recipe, DataRequest(None, False, 0), (), tmp_path)


def test_a_loss_with_a_floor_is_not_compared_with_zero(tmp_path: Path) -> None:
    proof = OverfitOneBatch().try_recipe(subject(tmp_path, Vae, elbo))
    assert proof.result == "holds", proof.measured
    assert "the floor of a loss of your own is unknown" in proof.measured


def test_a_constant_answer_is_still_not_memorizing(tmp_path: Path) -> None:
    proof = OverfitOneBatch().try_recipe(subject(tmp_path, Constant, lambda output, targets: (output - targets) ** 2))
    assert proof.result != "holds", proof.measured


def test_a_forward_that_draws_is_no_wrong_kernel(tmp_path: Path) -> None:
    proof = EagerAndCompiledAgree().try_recipe(subject(tmp_path, Vae, elbo))
    assert proof.result in ("unproved", "holds"), proof.measured
    assert proof.result == "holds" or "draws random numbers" in proof.measured


def test_a_model_that_samples_is_not_told_to_stop_sampling(tmp_path: Path) -> None:
    proof = EvaluationRepeats().try_recipe(subject(tmp_path, Vae, elbo))
    assert proof.result == "unproved"
    assert "not applicable: the forward draws random numbers in eval mode (randn_like, line" in proof.measured


@pytest.mark.parametrize(("rounding", "equal"), [(1e-7, True), (1e-3, False)])
def test_what_is_left_of_a_bias_that_a_norm_cancels_is_rounding(rounding: float, equal: bool) -> None:
    def result(bias: float) -> BatchResult:
        gradients = {"0.weight": torch.ones(3), "0.bias": torch.full((3,), bias)}
        return BatchResult(1.0, (torch.ones(1),), gradients, {})

    assert compare(result(rounding), result(-rounding)).equal is equal
