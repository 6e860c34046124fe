"""What an autograd graph tells of number formats, and of the factors of a loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trueloop.taps.dtypes import dtypes_in, manual_loss_scale

FACTORS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "none": (lambda loss: loss, 1.0),
    "a number": (lambda loss: loss * 128, 128.0),
    "a number on the left": (lambda loss: 128.0 * loss, 128.0),
    "a tensor": (lambda loss: torch.tensor(64.0) * loss, 64.0),
    "a quotient": (lambda loss: loss / 0.125, 8.0),
    "a part of a window": (lambda loss: loss * 1024 / 4, 256.0),
    "one of two terms": (lambda loss: loss * 16 + loss.exp(), 16.0),
    "a square, which is no constant": (lambda loss: loss * loss, 1.0),
    "weights, which are many": (lambda loss: (loss * torch.full((3,), 9.0)).sum(), 1.0),
    "a number over the loss": (lambda loss: torch.tensor(100.0) / loss, 1.0),
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_by_hand_is_a_constant_before_a_loss_or_one_of_its_terms(name: str) -> None:
    made, expected = FACTORS[name]
    loss = torch.tensor([1.0, 2.0], requires_grad=True).pow(2).mean()
    assert manual_loss_scale(made(loss).grad_fn) == expected


def test_every_loss_function_can_be_looked_through() -> None:
    scores, soft = torch.randn(4, 3, requires_grad=True), torch.rand(4, 3).softmax(1)
    losses = [
        nn.functional.cross_entropy(scores, soft, label_smoothing=0.1),
        nn.functional.binary_cross_entropy_with_logits(scores, soft, pos_weight=torch.ones(3)),
        nn.functional.kl_div(scores.log_softmax(1), soft, reduction="batchmean"),
        nn.functional.huber_loss(scores, soft),
    ]
    assert all(manual_loss_scale(loss.grad_fn) >= 1.0 for loss in losses)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_autocast_shows_in_the_graph_and_the_weights_keep_their_format(kind: torch.dtype) -> None:
    model = nn.Linear(4, 2)
    with torch.autocast("cpu", dtype=kind):
        out = model(torch.randn(3, 4))
    met = dtypes_in([out.float().mean().grad_fn])
    assert met.formats == {kind}
    assert met.leaves == {id(p): torch.float32 for p in model.parameters()}
    assert met.whole


def test_a_cast_there_and_back_computes_nothing_in_half() -> None:
    weight = torch.randn(4, requires_grad=True)
    met = dtypes_in([(weight.half().float() * 2).sum().grad_fn])
    assert not met.formats
    assert met.whole


def test_what_is_recomputed_out_of_sight_makes_the_look_incomplete() -> None:
    model = nn.Linear(4, 4)
    out = checkpoint(model, torch.randn(3, 4, requires_grad=True), use_reentrant=True)
    assert not dtypes_in([out.mean().grad_fn]).whole


def test_a_walk_that_ends_at_its_limit_is_not_whole() -> None:
    value = torch.ones(1, requires_grad=True)
    for _ in range(50):
        value = value * 2
    assert dtypes_in([value.grad_fn]).whole
    assert not dtypes_in([value.grad_fn], limit=10).whole
