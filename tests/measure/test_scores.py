"""Scores as scripts print them, and the columns that a dataset holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset

from trueloop.measure.scores import scores
from trueloop.measure.stored_columns import stored_columns


def test_scores_of_classes() -> None:
    outputs = torch.eye(4).repeat(3, 1)
    labels = torch.arange(4).repeat(3)
    labels[:3] = 3
    found = scores(outputs, labels)
    assert found["accuracy"] == pytest.approx(9 / 12)
    assert found["error rate"] == pytest.approx(3 / 12)


def test_scores_of_numbers() -> None:
    labels = torch.arange(10.0)
    found = scores(labels + 2, labels)
    assert found["rmse"] == found["mae"] == pytest.approx(2)
    assert found["correlation"] == pytest.approx(1)
    assert found["R2"] == pytest.approx(1 - 4 / 8.25)


def test_auc_counts_ties_half() -> None:
    outputs = torch.tensor([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 0, 1])
    pairs = [(p > n) + 0.5 * (p == n) for p in outputs[1::2].tolist() for n in outputs[::2].tolist()]
    assert scores(outputs, labels)["AUC"] == pytest.approx(sum(pairs) / len(pairs))


def test_nothing_is_scored_where_numbers_are_missing() -> None:
    assert scores(torch.full((10,), math.nan), torch.arange(10)) == {}
    assert scores(torch.ones(10), torch.arange(9)) == {}


class _Held(Dataset[Any]):
    def __init__(self, x: Any, labels: Any) -> None:
        self.x, self.labels = x, labels

    def __len__(self) -> int:
        return len(self.labels)


@pytest.mark.parametrize("form", [np.asarray, torch.tensor, list])
def test_columns_of_a_dataset(form: Any) -> None:
    dataset = _Held(np.zeros((6, 2)), form([5, 4, 3, 2, 1, 0]))
    assert [column.tolist() for column in stored_columns(dataset, 6)] == [[5, 4, 3, 2, 1, 0]]


def test_columns_of_tensors_subsets_and_lists() -> None:
    x, y = torch.zeros(6, 2), torch.arange(6)
    dataset = TensorDataset(x, y)

    def columns(of: object, rows: int) -> list[Any]:
        return [column.tolist() for column in stored_columns(of, rows)]

    assert columns(dataset, 6) == [[0, 1, 2, 3, 4, 5]]
    assert columns(Subset(Subset(dataset, [5, 3, 1]), [2, 0]), 2) == [[1, 5]]
    pairs: list[tuple[Tensor, Any]] = [(x[row], y[row]) for row in range(6)]
    assert columns(pairs, 6) == [[0, 1, 2, 3, 4, 5]]
    assert columns([1, 2, 3], 2) == []
