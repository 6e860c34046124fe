"""Dropout by a hash of place and seed: the distribution of torch's own, from two numbers of torch's generator."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.engine.programs.hashed_dropout import HashedDropout, draw_seeds, keep_mask

STEPS, POINTS = 400, 4096


def many(share: float, steps: int = STEPS) -> Tensor:
    """One row for each of many batches."""
    torch.manual_seed(0)
    return torch.stack([keep_mask((POINTS,), share, draw_seeds(), 0) for _ in range(steps)]).float()


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.8, 0.999])
def test_so_many_are_kept_as_were_asked_for(share: float) -> None:
    masks, spread = many(share), (share * (1 - share)) ** 0.5
    assert masks.mean() == pytest.approx(share, abs=4 * spread / (STEPS * POINTS) ** 0.5)
    assert masks.mean(1).std() == pytest.approx(spread / POINTS**0.5, rel=0.15)  # from batch to batch
    assert masks.mean(0).std() == pytest.approx(spread / STEPS**0.5, rel=0.10)  # from point to point


@pytest.mark.parametrize("lag", [1, 2, 7, 64, 256, 1024])
def test_a_point_says_nothing_about_its_neighbours(lag: int) -> None:
    centred = many(0.5) * 2 - 1
    products = centred[:, :-lag] * centred[:, lag:]
    assert abs(products.mean()) < 4 / products.numel() ** 0.5
    assert products.mean(1).abs().max() < 5 / (POINTS - lag) ** 0.5  # nor within any single batch


def test_a_batch_says_nothing_about_another() -> None:
    centred = many(0.5) * 2 - 1
    together = centred @ centred.T / POINTS
    together.fill_diagonal_(0)
    assert together.abs().max() < 5.5 / POINTS**0.5
    assert together.std() == pytest.approx(1 / POINTS**0.5, rel=0.05)


def test_layers_draw_apart() -> None:
    torch.manual_seed(0)
    numbers = [draw_seeds() for _ in range(200)]
    products = torch.stack(
        [(keep_mask((POINTS,), 0.5, two, 0) == keep_mask((POINTS,), 0.5, two, 1)).float().mean() for two in numbers]
    )
    assert products.mean() == pytest.approx(0.5, abs=4 * 0.5 / (200 * POINTS) ** 0.5)


def test_the_draws_come_from_torchs_generator_and_from_nothing_else() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second = draw_seeds(), draw_seeds()
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(draw_seeds(), first)
    assert torch.equal(keep_mask((9, 5), 0.7, first, 3), keep_mask((9, 5), 0.7, first, 3))


def test_dropout_scales_what_it_keeps_and_its_gradient_alike() -> None:
    values = torch.randn(64, 32, requires_grad=True)
    with HashedDropout(draw_seeds()):
        out = F.dropout(values, 0.25)
    out.sum().backward()  # type: ignore[no-untyped-call]
    mask = out != 0
    assert 0.7 < mask.float().mean() < 0.8
    torch.testing.assert_close(out, values * mask / 0.75)
    torch.testing.assert_close(values.grad, mask / 0.75)


def test_each_layer_of_a_model_is_a_layer_of_its_own_and_the_same_numbers_give_the_same_bits() -> None:
    model, numbers = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)), draw_seeds()
    with HashedDropout(numbers) as draws:
        one = model(torch.ones(100, 100))
    assert draws.layers == 2
    assert one.ne(0).float().mean() == pytest.approx(0.25, abs=0.03)  # two independent choices, not one made twice
    with HashedDropout(numbers):
        assert torch.equal(model(torch.ones(100, 100)), one)


@pytest.mark.parametrize(("p", "training"), [(0.5, False), (0.0, True), (1.0, True)])
def test_where_nothing_is_drawn_torch_answers(p: float, training: bool) -> None:
    values = torch.randn(8, 8)
    with HashedDropout(draw_seeds()) as draws:
        out = F.dropout(values, p, training)
    assert torch.equal(out, values * (p < 1.0 or not training))
    assert draws.layers == 0


def test_outside_dropout_is_torchs_own_again() -> None:
    with HashedDropout(draw_seeds()):
        pass
    torch.manual_seed(1)
    one = F.dropout(torch.ones(1000), 0.5)
    torch.manual_seed(1)
    assert torch.equal(one, F.dropout(torch.ones(1000), 0.5))


def test_other_draws_are_torchs_own() -> None:
    torch.manual_seed(2)
    expected = torch.rand(5)
    numbers = draw_seeds()
    torch.manual_seed(2)
    with HashedDropout(numbers):
        assert torch.equal(torch.rand(5), expected)
