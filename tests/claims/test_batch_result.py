"""How far two computations lie apart: rounding is not a difference, a missing gradient is, and nan is not equal to a
number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tests.claims.subjects import blobs, net
from trueloop.claims.batch_result import (
    ROUNDING,
    BatchResult,
    compare,
    compute_result,
    disable_randomness,
    first_differing_layer,
    relative_difference,
)
from trueloop.data.source import Batch
from trueloop.engine.task import Multiclass
from trueloop.recipe.recipe import DataRequest


def batch() -> Batch:
    return blobs(DataRequest()).train.fetch(torch.arange(8))


@pytest.mark.parametrize(
    ("one", "two", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0], [1.0, 2.2], 0.1),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([1.0, math.nan], [1.0, math.nan], 0.0),
        ([1.0, math.nan], [1.0, 2.0], math.inf),
        ([1.0], [1.0, 2.0], math.inf),
        ([math.inf, 1.0], [math.inf, 1.0], 0.0),
        ([], [], 0.0),
    ],
)
def test_distances(one: list[float], two: list[float], apart: float) -> None:
    assert relative_difference(torch.tensor(one), torch.tensor(two)) == pytest.approx(apart)


def test_a_scale_can_be_given_for_what_is_small_by_nature() -> None:
    one, two = torch.tensor([1e-9]), torch.tensor([2e-9])
    assert relative_difference(one, two) == pytest.approx(1.0)
    assert relative_difference(one, two, scale=1.0) == pytest.approx(1e-9)


def test_the_same_model_twice_is_alike_and_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made = [compute_result(model, Multiclass(), batch(), layers=True) for _ in range(2)]
    assert compare(*made).equal
    assert list(made[0].layers) == ["0", "1", "2", "3"]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_scale_of_the_loss_is_taken_out_again() -> None:
    torch.manual_seed(0)
    model = net().eval()
    assert compare(
        compute_result(model, Multiclass(), batch()), compute_result(model, Multiclass(), batch(), scale=1024.0)
    ).equal


def numbers(loss: float = 1.0, answer: float = 1.0, **gradients: float) -> BatchResult:
    return BatchResult(
        loss, (torch.tensor([answer]),), {name: torch.tensor([value]) for name, value in gradients.items()}, {}
    )


def test_rounding_is_no_difference() -> None:
    assert compare(numbers(1.0, 1.0, w=1.0), numbers(1.0 + ROUNDING / 2, 1.0, w=1.0 + ROUNDING)).equal


@pytest.mark.parametrize(
    ("two", "said"),
    [
        (numbers(1.1, 1.0, w=1.0), "the loss is 1 here and 1.1 there"),
        (numbers(1.0, 1.5, w=1.0), "the outputs here and there differ by 0.5 of their scale"),
        (numbers(1.0, 1.0, w=1.3), "the gradient of w differs by 0.3 of its scale"),
        (numbers(math.nan, 1.0, w=1.0), "the loss is 1 here and nan there"),
    ],
)
def test_what_differs_is_said(two: BatchResult, said: str) -> None:
    apart = compare(numbers(1.0, 1.0, w=1.0), two)
    assert not apart.equal
    assert said in apart.sentence("here", "there")


def test_a_gradient_that_only_one_has_is_a_difference() -> None:
    apart = compare(numbers(w=1.0, b=1.0), numbers(w=1.0))
    assert apart.worst == "b"
    assert math.isinf(apart.gradients)


def test_a_tiny_gradient_is_held_against_the_largest_one() -> None:
    assert compare(numbers(w=1.0, b=1e-9), numbers(w=1.0, b=2e-9)).equal


def test_the_first_layer_apart_is_where_it_begins() -> None:
    one = {"a": torch.ones(2), "b": torch.ones(2), "c": torch.ones(2)}
    two = {"a": torch.ones(2), "b": torch.full((2,), 1.5), "c": torch.full((2,), 9.0)}
    assert first_differing_layer(one, two, ROUNDING) == "b"
    assert first_differing_layer(one, one, ROUNDING) is None
    assert first_differing_layer(one, {"a": torch.full((2,), math.nan)}, ROUNDING) == "a"


def test_quieted_says_how() -> None:
    model = net()
    assert disable_randomness(model, Multiclass(), batch()) == "train mode, dropout off"
    assert model.training
    noisy = nn.Sequential(Noise(), nn.Linear(6, 3))
    assert disable_randomness(noisy, Multiclass(), batch()) == "eval mode"
    assert not noisy.training


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x) if self.training else x
