"""The length of a gradient, and what is left of one that was too long."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from trueloop.parallel.gradient import TINY, clip, norm_of, shorten

numbers = st.lists(st.floats(-1e8, 1e8, width=32), min_size=1, max_size=6)


def graded(*gradients: Tensor | None) -> list[nn.Parameter]:
    parameters = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(2) if gradient is None else torch.zeros_like(gradient))
        parameter.grad = gradient
        parameters.append(parameter)
    return parameters


def length(parameters: Sequence[Tensor]) -> float:
    return float(norm_of(parameters))


@given(st.lists(numbers, min_size=1, max_size=5))
def test_the_length_is_that_of_all_numbers_in_a_row(rows: list[list[float]]) -> None:
    flat = torch.tensor([number for row in rows for number in row], dtype=torch.float64)
    assert length(graded(*map(torch.tensor, rows))) == pytest.approx(float(flat.norm()), rel=1e-5, abs=1e-30)


@given(st.lists(numbers, min_size=1, max_size=5), st.floats(1e-3, 1e3))
@settings(max_examples=80)
def test_after_clipping_no_gradient_is_longer_than_the_limit_and_none_has_turned(
    rows: list[list[float]], limit: float
) -> None:
    parameters = graded(*map(torch.tensor, rows))
    before = [torch.tensor(row) for row in rows]
    norm = norm_of(parameters)
    clip(parameters, norm, limit)
    assert length(parameters) <= limit * (1 + 1e-4)
    share = min(1.0, limit / (float(norm) + TINY))
    for parameter, gradient in zip(parameters, before, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient * share, rtol=1e-4, atol=1e-30)


def test_a_gradient_below_the_limit_keeps_its_bits() -> None:
    gradient = torch.randn(50, generator=torch.Generator().manual_seed(0))
    (parameter,) = graded(gradient.clone())
    clip([parameter], norm_of([parameter]), 1000.0)
    assert parameter.grad is not None
    assert torch.equal(parameter.grad, gradient)


def test_without_gradients_the_length_is_zero_on_the_parameters_device() -> None:
    assert norm_of([]).item() == 0.0
    assert norm_of(graded(None)).item() == 0.0
    assert norm_of([torch.zeros(2, device="meta")]).device.type == "meta"


def test_parameters_without_a_gradient_get_none_by_clipping() -> None:
    first, second = graded(None, torch.tensor([6.0, 8.0]))
    clip([first, second], norm_of([first, second]), 5.0)
    assert first.grad is None
    assert second.grad is not None
    assert second.grad.tolist() == pytest.approx([3.0, 4.0], rel=1e-5)
    shorten([], torch.tensor(1.0), 1.0)


def test_a_gradient_of_zeros_stays_zeros() -> None:
    (parameter,) = graded(torch.zeros(3))
    clip([parameter], norm_of([parameter]), 0.0)
    assert parameter.grad is not None
    assert parameter.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_not_hidden_by_clipping(wrong: float) -> None:
    first, second = graded(torch.tensor([wrong, 1.0]), torch.tensor([1.0]))
    norm = norm_of([first, second])
    assert not norm.isfinite()
    clip([first, second], norm, 1.0)
    assert first.grad is not None
    assert not first.grad.isfinite().all()


def test_rows_that_were_looked_up_twice_count_as_their_sum() -> None:
    """A sparse gradient lists a row as often as it was used."""
    sparse, dense = (nn.Embedding(5, 3, sparse=kind) for kind in (True, False))
    for table in (sparse, dense):
        (table(torch.tensor([1, 1, 2])) * torch.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert length([sparse.weight]) == pytest.approx(length([dense.weight]))
    clip([sparse.weight], norm_of([sparse.weight]), 0.5)
    assert length([sparse.weight]) == pytest.approx(0.5, rel=1e-4)
    both = [sparse.weight, *graded(torch.tensor([1.2]))]
    assert length(both) == pytest.approx(1.3, rel=1e-4)


def test_types_of_numbers_may_be_mixed() -> None:
    parameters = graded(
        torch.full((2,), 3.0), torch.full((2,), 3.0, dtype=torch.bfloat16), torch.full((1,), 8.0, dtype=torch.float64)
    )
    assert length(parameters) == pytest.approx(10.0, rel=0.01)
    clip(parameters, norm_of(parameters), 1.0)
    assert length(parameters) == pytest.approx(1.0, rel=0.02)
    assert [str(parameter.grad.dtype) for parameter in parameters if parameter.grad is not None] == [
        "torch.float32",
        "torch.bfloat16",
        "torch.float64",
    ]


def test_an_empty_gradient_has_no_length() -> None:
    assert length(graded(torch.zeros(0, 4), torch.tensor([2.0]))) == 2.0
