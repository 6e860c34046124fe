"""Dense targets that belong to a different row, and those that only look like it."""

from __future__ import annotations

import torch

from trueloop.measure.pairs import paired

ROWS = 300


def series() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, 24, generator=generator).cumsum(1)


def test_targets_in_a_different_order() -> None:
    inputs, order = series(), torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    found = paired(inputs, (2 * inputs + 1)[order], torch.arange(ROWS))
    assert found is not None
    assert found.others > 0.9 * ROWS
    assert found.own < 0.1 * ROWS


def test_targets_of_the_next_step_are_those_of_their_row_however_much_rows_resemble_one_another() -> None:
    """Words whose beginning is cut off are the targets of other words."""
    letters = torch.randint(1, 27, (ROWS, 13), generator=torch.Generator().manual_seed(0))
    letters[1::2, :-1] = letters[::2, 1:]
    letters[:, 8:] = 0
    targets = torch.full_like(letters, -1)
    targets[:, :8] = letters[:, 1:9]
    assert paired(letters, targets, torch.arange(ROWS)) is None
    moved = paired(letters, targets.roll(7, 0), torch.arange(ROWS))
    assert moved is not None  # of another row they are not the next step
