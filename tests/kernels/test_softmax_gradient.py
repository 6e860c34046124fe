"""Scores to losses and to their own gradient: the plain one, and the Triton kernel's arithmetic, against torch's cross
entropy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from tests.kernels import triton_stand_in
from trueloop.kernels import softmax_gradient as plain

FUSED = Path(plain.__file__).with_name("softmax_gradient_triton.py")
WAYS = ["plain", "stream", "narrow"]
Way = Callable[..., None]
"""softmax_gradient(scores, targets, losses, ignore, write=...)"""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Way:
    if request.param == "plain":
        return plain.softmax_gradient
    module = triton_stand_in.load(FUSED, monkeypatch)
    return lambda *args, write: module.softmax_gradient(*args, write=write, kernel=request.param)


def scores_of(rows: int, classes: int, kind: torch.dtype = torch.float32) -> Tensor:
    """As the operator holds them: rows a multiple of 64 columns apart; what lies between is whatever was there."""
    width = -(-classes // 64) * 64
    room = torch.full((rows, width), torch.nan, dtype=kind)
    room[:, :classes] = torch.randn(rows, classes, generator=torch.Generator().manual_seed(classes)) * 3
    return room[:, :classes]


def expected(scores: Tensor, targets: Tensor, ignore: int = -100) -> tuple[Tensor, Tensor]:
    wide = scores.detach().double().requires_grad_()
    losses = F.cross_entropy(wide, targets, reduction="none", ignore_index=ignore)
    (gradient,) = torch.autograd.grad(losses.sum(), wide)
    return losses.detach(), gradient


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("classes", [2, 17, 1000, 1024, 9001, 70_001])
def test_losses_and_gradient_are_those_of_cross_entropy(way: Way, classes: int, kind: torch.dtype) -> None:
    scores, targets, losses = (
        scores_of(6, classes, kind),
        torch.tensor([0, 1, -100, classes - 1, -100, classes // 2]),
        torch.empty(6),
    )
    truth = expected(scores, targets)
    way(scores, targets, losses, -100, write=True)
    torch.testing.assert_close(losses.double(), truth[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(scores.double(), truth[1], rtol=torch.finfo(kind).eps * 2, atol=1e-6)


def test_without_writing_the_scores_stay(way: Way) -> None:
    scores, targets, losses = scores_of(4, 1000), torch.tensor([3, -100, 999, 0]), torch.empty(4)
    before, truth = scores.clone(), expected(scores, targets)
    way(scores, targets, losses, -100, write=False)
    torch.testing.assert_close(losses.double(), truth[0], rtol=1e-5, atol=1e-5)
    assert torch.equal(scores, before)


def test_a_class_may_be_the_one_that_does_not_count(way: Way) -> None:
    scores, targets, losses = scores_of(3, 100), torch.tensor([5, 7, 5]), torch.empty(3)
    truth = expected(scores, targets, ignore=5)
    way(scores, targets, losses, 5, write=True)
    assert losses[[0, 2]].tolist() == [0.0, 0.0]
    torch.testing.assert_close(scores.double(), truth[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrong", [-1, 100, 1 << 40])
def test_what_is_no_class_makes_its_row_nan_and_no_other(way: Way, wrong: int) -> None:
    scores, targets, losses = scores_of(3, 100), torch.tensor([5, wrong, 7]), torch.empty(3)
    way(scores, targets, losses, -100, write=True)
    assert torch.isnan(losses).tolist() == [False, True, False]
    assert torch.isnan(scores).all(1).tolist() == [False, True, False]
    assert torch.isfinite(scores[[0, 2]]).all()


def test_a_row_that_does_not_count_may_hold_anything(way: Way) -> None:
    scores, targets, losses = scores_of(3, 100), torch.tensor([5, -100, 7]), torch.empty(3)
    scores[1] = torch.inf
    scores[1, 3] = torch.nan
    way(scores, targets, losses, -100, write=True)
    assert losses[1] == 0
    assert not scores[1].any()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_score_that_is_no_number_is_not_hidden(way: Way, bad: float) -> None:
    scores, targets, losses = scores_of(2, 100), torch.tensor([5, 6]), torch.empty(2)
    scores[0, 50] = bad
    way(scores, targets, losses, -100, write=True)
    assert not torch.isfinite(losses[0])
    assert torch.isfinite(losses[1])


def test_a_class_that_is_ruled_out_has_no_share(way: Way) -> None:
    scores, targets, losses = scores_of(2, 100), torch.tensor([5, 6]), torch.empty(2)
    scores[:, 50:] = -torch.inf
    truth = expected(scores, targets)
    way(scores, targets, losses, -100, write=True)
    assert not scores[:, 50:].any()
    torch.testing.assert_close(losses.double(), truth[0], rtol=1e-5, atol=1e-5)


def test_scores_of_thousands_do_not_overflow(way: Way) -> None:
    scores, targets, losses = scores_of(4, 9001), torch.tensor([5, 6, 7, 9000]), torch.empty(4)
    scores *= 3000
    truth = expected(scores, targets)
    way(scores, targets, losses, -100, write=True)
    torch.testing.assert_close(losses.double(), truth[0], rtol=1e-5, atol=1e-2)
    assert torch.isfinite(scores).all()


def test_the_scores_of_one_row_lie_side_by_side_and_rows_beside_it_are_not_touched(way: Way) -> None:
    room = torch.full((5, 128), 7.0)
    targets, losses = torch.tensor([1, 2]), torch.empty(2)
    way(room[1:3, :100], targets, losses, -100, write=True)
    assert (room[[0, 3, 4]] == 7.0).all()
    torch.testing.assert_close(losses, torch.full((2,), 100.0).log())


def test_float64_is_computed_in_float64() -> None:
    scores, targets, losses = (
        scores_of(3, 100, torch.float64),
        torch.tensor([5, 6, -100]),
        torch.empty(3, dtype=torch.float64),
    )
    truth = expected(scores, targets)
    plain.softmax_gradient(scores, targets, losses, -100, write=True)
    torch.testing.assert_close(losses, truth[0], rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(scores, truth[1], rtol=1e-13, atol=1e-13)


def test_every_layout_is_timed_and_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ["plain", *triton_stand_in.load(FUSED, monkeypatch).CONFIGURATIONS] == WAYS
