"""Columns of group means of the labels, and columns that only look like them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trueloop.measure.pure_values import pure_column

ROWS, GROUPS = 2000, 700


def _labels(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    group = torch.randint(0, GROUPS, (ROWS,), generator=generator)
    return group, (torch.rand(ROWS, generator=generator) < 0.45).double()


def _rates(group: Tensor, labels: Tensor) -> Tensor:
    total = torch.zeros(GROUPS, dtype=torch.double).index_add(0, group, labels)
    return (total / torch.bincount(group, minlength=GROUPS).clamp(min=1)).float()


def _table(column: Tensor) -> Tensor:
    other = torch.randn(len(column), 1, generator=torch.Generator().manual_seed(9))
    return torch.cat([other, column[:, None].float()], 1)


def test_a_rate_with_the_labels_of_its_own_rows_is_found() -> None:
    group, labels = _labels(0)
    new_group, new_labels = _labels(1)
    rates = _rates(group, labels)
    found = pure_column(_table(rates[group]), labels, _table(rates[new_group]), new_labels)
    assert found is not None
    assert found.column == 1
    assert found.rows >= 0.1 * ROWS
    assert found.contrary >= 0.2 * found.new_rows


def test_a_rate_of_other_rows_is_not() -> None:
    group, labels = _labels(0)
    new_group, new_labels = _labels(1)
    rates = _rates(*_labels(2))
    assert pure_column(_table(rates[group]), labels, _table(rates[new_group]), new_labels) is None


def test_values_that_decide_in_new_rows_too_are_not() -> None:
    group, labels = _labels(0)
    rates = _rates(group, labels)[group]
    assert pure_column(_table(rates), labels, _table(rates), labels) is None


def test_three_classes_and_continuous_columns_are_not() -> None:
    group, labels = _labels(0)
    rates = _rates(group, labels)[group]
    labels[:5] = 2
    assert pure_column(_table(rates), labels, _table(rates), labels) is None
    noise = torch.randn(ROWS, generator=torch.Generator().manual_seed(3))
    assert pure_column(_table(noise), _labels(0)[1], _table(noise), _labels(1)[1]) is None


def _smoothed(group: Tensor, labels: Tensor, weight: float) -> Tensor:
    total = torch.zeros(GROUPS, dtype=torch.double).index_add(0, group, labels)
    return ((total + weight * labels.mean()) / (torch.bincount(group, minlength=GROUPS) + weight)).float()


@pytest.mark.parametrize("weight", [0.5, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("scaled", ["as it is", "logarithm", "standardized"])
def test_a_smoothed_rate_is_found_however_it_is_scaled(weight: float, scaled: str) -> None:
    (group, labels), (new_group, new_labels) = _labels(0), _labels(1)
    rates = _smoothed(group, labels, weight)
    rates = {"as it is": rates, "logarithm": rates.log(), "standardized": (rates - rates.mean()) / rates.std()}[scaled]
    found = pure_column(_table(rates[group]), labels, _table(rates[new_group]), new_labels)
    assert found is not None
    assert found.column == 1


@pytest.mark.parametrize("weight", [0.5, 5.0, 20.0])
def test_a_smoothed_rate_of_the_other_folds_is_not(weight: float) -> None:
    (group, labels), (new_group, new_labels) = _labels(0), _labels(1)
    column = torch.zeros(ROWS)
    fold = torch.arange(ROWS) % 5
    for part in range(5):
        mine = fold == part
        column[mine] = _smoothed(group[~mine], labels[~mine], weight)[group[mine]]
    new = _smoothed(group, labels, weight)[new_group]
    assert pure_column(_table(column), labels, _table(new), new_labels) is None


def test_a_grade_that_grows_with_the_label_in_new_rows_too_is_not() -> None:
    generator = torch.Generator().manual_seed(4)
    grades = torch.randint(0, 12, (2 * ROWS,), generator=generator).float()
    labels = (torch.rand(2 * ROWS, generator=generator) < ((grades - 3) / 5).clamp(0, 1)).double()
    assert pure_column(_table(grades[:ROWS]), labels[:ROWS], _table(grades[ROWS:]), labels[ROWS:]) is None
