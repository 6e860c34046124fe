"""Windows of a series whose targets lie inside them, and rows that only look like windows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trueloop.measure.windows import overlaps, window_with_target


def _windows(length: int = 12, step: int = 3) -> Tensor:
    series = torch.randn(200, generator=torch.Generator().manual_seed(0)).cumsum(0)
    return series.unfold(0, length, step)


@pytest.mark.parametrize("layout", ["rows", "time first", "channels first"])
def test_the_last_number_is_found_in_every_layout(layout: str) -> None:
    windows = _windows()
    other = torch.randn(windows.shape, generator=torch.Generator().manual_seed(1))
    inputs = {
        "rows": windows,
        "time first": torch.stack([other, windows], 2),
        "channels first": torch.stack([other, windows], 1),
    }[layout]
    for targets in (windows[:, -1], windows[:, -1:], torch.stack([windows[:, -1], other[:, 0]], 1)):
        found = window_with_target(inputs, targets)
        assert found is not None
        assert torch.equal(found, windows)


def test_other_targets_are_not_inside() -> None:
    windows = _windows()
    assert window_with_target(windows[:-1], windows[1:, -1]) is None  # a later number
    assert window_with_target(windows, windows.flip(1)) is None  # all of the window, backwards
    assert window_with_target(windows, windows[:, -1].round()) is None
    flat = torch.ones(20, 12)
    assert window_with_target(flat, flat[:, -1]) is None  # one number for all


def test_only_windows_of_one_series_overlap() -> None:
    assert overlaps(_windows()) >= 3
    assert overlaps(_windows()[torch.randperm(63, generator=torch.Generator().manual_seed(2))]) >= 3
    assert overlaps(torch.rand(64, 12, generator=torch.Generator().manual_seed(3))) == 0
    assert overlaps(torch.zeros(64, 12)) == 0
    assert overlaps(_windows(12, 12)) == 0  # side by side
