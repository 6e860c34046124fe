"""Differences, ties and metrics: on both sides of each line."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.export.made import subject
from trueloop.data.source import Batch
from trueloop.export.compare import Comparison, Metrics, error_between, largest_in, predictions


@pytest.mark.parametrize(
    ("ours", "theirs", "error"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([math.nan, 1.0], [math.nan, 1.0], 0.0),
        ([math.nan, 1.0], [0.0, 1.0], math.inf),
        ([1.0, 1.0], [math.nan, 1.0], math.inf),
        ([math.inf], [math.inf], 0.0),
        ([math.inf], [-math.inf], math.inf),
        ([], [], 0.0),
        ([1.0], [1.0, 2.0], math.inf),
    ],
)
def test_the_largest_difference(ours: list[float], theirs: list[float], error: float) -> None:
    assert error_between(torch.tensor(ours), torch.tensor(theirs)) == error


def test_whole_numbers_are_compared_too() -> None:
    assert error_between(torch.tensor([3, 4]), torch.tensor([3, 6])) == 2


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_nothing_differs_from_itself(values: list[float]) -> None:
    tensor = torch.tensor(values)
    assert error_between(tensor, tensor.clone()) == 0


def test_the_largest_number_leaves_out_what_is_none() -> None:
    assert largest_in(torch.tensor([1.0, -7.0, math.inf, math.nan])) == 7
    assert largest_in(torch.tensor([math.nan])) == 0


def _compared(task: str, ours: list[list[float]], theirs: list[list[float]], tolerance: float = 0.1) -> Comparison:
    made = Comparison(task, tolerance)
    made.add([torch.tensor(ours)], [torch.tensor(theirs)], counted=True)
    return made


def test_another_best_class_is_a_disagreement() -> None:
    made = _compared("multiclass", [[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]])
    assert (made.disagreements, made.ties, made.max_error) == (1, 0, 1.0)


@pytest.mark.parametrize(("apart", "ties"), [(0.19, 1), (0.21, 0)])
def test_two_scores_within_the_tolerance_of_each_other_are_a_tie(apart: float, ties: int) -> None:
    made = _compared("multiclass", [[apart, 0.0]], [[0.0, apart]])
    assert (made.ties, made.disagreements) == (ties, 1 - ties)


def test_yes_and_no_are_told_apart_at_zero() -> None:
    made = _compared("binary", [[0.15], [-3.0], [3.0]], [[-0.01], [2.0], [2.9]])
    assert (made.ties, made.disagreements) == (1, 1)


def test_every_token_is_a_prediction() -> None:
    found = predictions("language", torch.tensor([[[0.0, 1.0], [2.0, 0.0]]]))
    assert found is not None
    assert found[0].tolist() == [[1, 0]]


def test_classes_of_points_are_predictions_of_each_point() -> None:
    found = predictions("multiclass", torch.tensor([[[0.0, 5.0], [1.0, 0.0]]]))
    assert found is not None
    assert found[0].tolist() == [[1, 0]]


def test_quantities_are_compared_in_their_own_unit() -> None:
    made = _compared("regression", [[200_000.0]], [[200_005.0]])
    assert made.scale == 200_000
    assert made.disagreements == 0
    assert _compared("multiclass", [[200_000.0, 0.0]], [[200_005.0, 0.0]]).scale == 1


def test_what_was_cut_short_is_compared_but_not_counted() -> None:
    made = Comparison("multiclass", 0.1)
    made.add([torch.tensor([[1.0, 0.0]])], [torch.tensor([[0.0, 1.0]])], counted=False)
    assert (made.max_error, made.disagreements, made.worst) == (1.0, 0, 0)


def test_the_worst_batch_is_remembered() -> None:
    made = Comparison("regression", 0.1)
    for error in (0.0, 0.5, 0.2):
        made.add([torch.tensor([1.0])], [torch.tensor([1.0 + error])], counted=True)
    assert made.worst == 1


def test_another_shape_is_an_infinite_difference() -> None:
    made = Comparison("multiclass", 0.1)
    made.add([torch.zeros(2, 3)], [torch.zeros(1, 3)], counted=True)
    assert made.max_error == math.inf


def test_metrics_are_those_of_all_samples_together() -> None:
    one, parts = Metrics(subject().task), Metrics(subject().task)
    scores, labels = torch.randn(7, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    one.add(scores, Batch(scores, labels))
    parts.add(scores[:1], Batch(scores[:1], labels[:1]))
    parts.add(scores[1:], Batch(scores[1:], labels[1:]))
    assert parts.values() == pytest.approx(one.values())
    assert Metrics(subject().task).values() == {}
