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


def test_curves_of_one_family_are_not_windows_of_one_series() -> None:
    """Sines of any phase: at every shift some other curve is near, but none is equal."""
    draw = torch.Generator().manual_seed(0)
    phases = torch.rand(1100, 1, generator=draw) * 6.28
    curves = torch.sin(torch.arange(32) * 0.3 + phases)
    assert later_windows(curves[:64], curves[64:]) < 8


def test_windows_are_recognized_after_each_column_was_normalized() -> None:
    series = torch.randn(3000, generator=torch.Generator().manual_seed(0)).cumsum(0) + 50
    cut = series.unfold(0, 32, 8)
    scaled = (cut - cut.mean(0)) / cut.std(0)
    order = torch.randperm(len(scaled), generator=torch.Generator().manual_seed(1))
    assert later_windows(scaled[order[:64]], scaled[order[64:]]) >= 8
