"""Two target columns that change places in training alone."""

import torch

from trueloop.measure.exchanged_targets import exchanged


def _figures(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    middle, height = torch.rand(count, generator=generator).double(), torch.rand(count, generator=generator).double()
    return torch.stack([middle - 0.3, middle + 0.3, height], 1)


def _half_exchanged(points: torch.Tensor) -> torch.Tensor:
    every_second = (torch.arange(len(points)) % 2 == 1).unsqueeze(1)
    return torch.where(every_second, points[:, [1, 0, 2]], points)


def test_a_model_that_answers_with_the_middle_shows_that_the_names_are_lost() -> None:
    training, truth = _half_exchanged(_figures(300, 0)), _figures(200, 1)
    middle = truth[:, :2].mean(1)
    found = exchanged((training, training), (torch.stack([middle, middle, truth[:, 2]], 1), truth))
    assert found is not None
    assert [(pair.low, pair.high) for pair in found] == [(0, 1)]
    assert found[0].evaluated == 1
    assert 0.4 < found[0].trained < 0.6


def test_a_model_that_tells_them_apart_is_proof_that_the_inputs_show_which_is_which() -> None:
    training, truth = _half_exchanged(_figures(300, 0)), _figures(200, 1)
    assert exchanged((training, training), (truth + 0.01, truth)) == []


def test_targets_in_different_units_are_not_compared() -> None:
    training, truth = _half_exchanged(_figures(300, 0)), _figures(200, 1)
    middle = truth[:, :2].mean(1)
    outputs = torch.stack([middle, middle, truth[:, 2]], 1)
    assert exchanged((10 * training, 10 * training), (outputs, truth)) == []


def test_few_rows_and_single_columns_say_nothing() -> None:
    truth = _figures(60, 1)
    assert exchanged((truth, truth), (truth, truth)) is None
    assert exchanged((_figures(300, 0)[:, :1],) * 2, (_figures(200, 1)[:, :1],) * 2) is None
