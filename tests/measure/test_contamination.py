"""Training rows that lie among the rows an evaluation calls anomalies."""

import torch

from trueloop.measure.contamination import contamination


def _rows(count: int, anomalous: bool, seed: int) -> torch.Tensor:
    rows = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return rows + 6 * torch.eye(6)[0] if anomalous else rows


def test_training_rows_among_the_anomalies_are_counted() -> None:
    evaluated = torch.cat([_rows(200, False, 0), _rows(80, True, 1)])
    anomalous = torch.arange(280) >= 200
    clean = contamination(_rows(500, False, 2), evaluated, anomalous)
    mixed = contamination(torch.cat([_rows(400, False, 2), _rows(100, True, 3)]), evaluated, anomalous)
    assert clean is not None
    assert mixed is not None
    assert clean.share < 0.03
    assert clean.expected < 0.03
    assert 0.12 < mixed.share < 0.25


def test_scattered_anomalies_and_few_rows_say_nothing() -> None:
    evaluated = _rows(300, False, 0)
    assert contamination(_rows(500, False, 2), evaluated, torch.arange(300) % 5 == 0) is None
    assert contamination(_rows(500, False, 2), evaluated[:60], torch.arange(60) >= 40) is None
