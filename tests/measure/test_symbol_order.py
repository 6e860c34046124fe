"""What a symbol tells about others of its sequence."""

import torch

from trueloop.measure.symbol_order import dependence


def test_text_tells_about_its_neighbor_and_not_about_far_places() -> None:
    generator = torch.Generator().manual_seed(0)
    steps = torch.where(torch.rand(12_000, generator=generator) < 0.3, 7, 1)
    text = steps.cumsum(0).remainder(20)
    assert dependence(text, 1) > 1
    assert abs(dependence(text, 400)) < 0.05


def test_text_without_order_and_short_text_tell_nothing() -> None:
    text = torch.randint(2000, (9000,), generator=torch.Generator().manual_seed(0))
    assert abs(dependence(text, 1)) < 0.05
    assert dependence(text[:30], 20) == 0
