"""Windows of one series, recognized by their values."""

import torch
from torch import Tensor

from trueloop.measure.rows import as_features, later_windows, stretches


def windows(series: Tensor, first: int, count: int, hop: int) -> Tensor:
    return as_features(torch.stack([series[first + hop * k : first + hop * k + 32] for k in range(count)]))


def test_windows_that_begin_later_in_the_same_series_are_recognized() -> None:
    series = torch.randn(600, generator=torch.Generator().manual_seed(0)).cumsum(0)
    assert later_windows(windows(series, 0, 60, 8), windows(series, 4, 60, 8)) > 50


def test_a_code_for_missing_values_makes_no_two_windows_alike() -> None:
    """Its distance to the numbers is nearly all of the variance, and equal codes are no evidence."""
    draw = torch.Generator().manual_seed(0)
    rows, others = torch.randn(2, 300, 32, generator=draw)
    late = torch.arange(32) >= 24
    rows[:, late], others[:, late.roll(-2)] = -9999.0, -9999.0
    assert later_windows(as_features(rows), as_features(others)) == 0


def test_curves_of_one_family_are_not_windows_of_one_series() -> None:
    """Sines of any phase: at every shift some other curve is near, but none is equal."""
    draw = torch.Generator().manual_seed(0)
    phases = torch.rand(1100, 1, generator=draw) * 6.28
    curves = as_features(torch.sin(torch.arange(32) * 0.3 + phases))
    assert later_windows(curves[:64], curves[64:]) < 8


def test_windows_are_recognized_after_each_column_was_normalized() -> None:
    series = torch.randn(3000, generator=torch.Generator().manual_seed(0)).cumsum(0) + 50
    cut = as_features(series.unfold(0, 32, 8))
    scaled = (cut - cut.mean(0)) / cut.std(0)
    order = torch.randperm(len(scaled), generator=torch.Generator().manual_seed(1))
    assert later_windows(scaled[order[:64]], scaled[order[64:]]) >= 8


def measured_beside_tide() -> Tensor:
    """A tide that comes back every 200 steps, and a measurement."""
    tide = torch.sin(torch.arange(200) * torch.pi / 100).repeat(5)
    measured = torch.randn(1000, generator=torch.Generator().manual_seed(0)).cumsum(0)
    return torch.stack([tide, measured], 1)


def test_an_input_that_comes_back_does_not_make_two_times_overlap() -> None:
    series = measured_beside_tide()
    trained, evaluated = windows(series, 0, 150, 5), windows(series, 800, 30, 5)
    inner = set(stretches(trained)[0][:, :-1].flatten().tolist())
    assert not inner & set(stretches(evaluated)[0][:, -1].tolist())
    assert later_windows(evaluated, trained) == 0
    assert later_windows(windows(series, 3, 60, 5), trained) > 50


def test_the_position_in_the_window_does_not_hide_an_overlap() -> None:
    """Nor does an order of channels, time."""
    series = measured_beside_tide()
    position = torch.arange(32.0)[None, :, None].expand(60, 32, 1)
    trained = torch.cat([windows(series, 0, 60, 8), position], 2)
    evaluated = torch.cat([windows(series, 4, 60, 8), position], 2).transpose(1, 2)
    inner = set(stretches(trained)[0][:, :-1].flatten().tolist())
    assert len(inner & set(stretches(evaluated)[0][:, -1].tolist())) > 50
