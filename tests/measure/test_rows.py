"""Windows of one series, recognized by their values."""

import torch
from torch import Tensor

from trueloop.measure.rows import later_windows


def windows(series: Tensor, first: int, count: int, hop: int) -> Tensor:
    return torch.stack([series[first + hop * k : first + hop * k + 32] for k in range(count)])


def test_windows_that_begin_later_in_the_same_series_are_recognized() -> None:
    series = torch.randn(600, generator=torch.Generator().manual_seed(0)).cumsum(0)
    assert later_windows(windows(series, 0, 60, 8), windows(series, 4, 60, 8)) > 50


def test_a_code_for_missing_values_makes_no_two_windows_alike() -> None:
    """Its distance to the numbers is nearly all of the variance, and equal codes are no evidence."""
    draw = torch.Generator().manual_seed(0)
    rows, others = torch.randn(2, 300, 32, generator=draw)
    late = torch.arange(32) >= 24
    rows[:, late], others[:, late.roll(-2)] = -9999.0, -9999.0
    assert later_windows(rows, others) == 0
