"""Mirrored and shifted images: only what was meant changes, and only the given generator is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from trueloop.data.augment import mirrored, shifted

BOTH = [mirrored, partial(shifted, by=2)]


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("change", BOTH)
def test_the_same_seed_gives_the_same_images_and_the_global_state_rests(change: Callable[..., Tensor]) -> None:
    images = torch.rand(8, 3, 6, 5)
    before, state = images.clone(), torch.get_rng_state()
    assert torch.equal(change(images, draws(1)), change(images, draws(1)))
    assert not torch.equal(change(images, draws(1)), change(images, draws(2)))
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_about_half_are_mirrored_and_the_others_are_untouched() -> None:
    images = torch.rand(400, 1, 4, 4)
    made = mirrored(images, draws())
    same = (made == images).flatten(1).all(1)
    flipped = (made == images.flip(-1)).flatten(1).all(1)
    assert (same ^ flipped).all()
    assert 150 < same.sum() < 250


def test_every_shift_up_to_the_limit_happens_and_none_beyond() -> None:
    image = torch.zeros(1, 1, 9, 9)
    image[0, 0, 4, 4] = 1
    made = shifted(image.expand(600, 1, 9, 9), draws(), by=2)
    assert made.flatten(1).sum(1).eq(1).all()
    places = made.squeeze(1).nonzero()[:, 1:]
    assert {tuple(place) for place in places.tolist()} == {
        (row, column) for row in range(2, 7) for column in range(2, 7)
    }


def test_what_comes_in_at_the_side_is_the_edge() -> None:
    image = torch.arange(5.0).expand(50, 2, 5, 5)
    made = shifted(image, draws(), by=2)
    assert made.shape == image.shape
    assert made.min() == 0
    assert made.max() == 4
    assert (made.diff(dim=-1) >= 0).all()
    assert (made.diff(dim=-2) == 0).all()


def test_all_channels_move_together() -> None:
    image = torch.rand(20, 1, 7, 7).expand(20, 3, 7, 7)
    made = shifted(image, draws(), by=3)
    assert torch.equal(made[:, 0], made[:, 2])
