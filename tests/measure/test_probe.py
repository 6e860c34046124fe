"""The probe: what it can predict, what it cannot, and tasks that change from call to call."""

from __future__ import annotations

import pytest
import torch

from trueloop.measure.probe import differs_by_call, probe


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_classes_are_predicted_and_shuffled_ones_are_not() -> None:
    labels = torch.randint(0, 4, (600,)).double()
    rows = 2 * torch.randn(4, 6)[labels.long()] + torch.randn(600, 6)
    found, lost = probe(rows, labels, True), probe(rows, labels[torch.randperm(600)], True)
    assert found is not None
    assert lost is not None
    assert found.score > 0.8 > 0.35 > lost.score
    assert found.chance == lost.chance == 0.25


def test_a_curve_is_predicted_by_neighbors_and_a_plane_by_regression() -> None:
    rows = torch.randn(400, 1)
    curve = probe(rows, (3 * rows[:, 0]).sin(), False)
    wide = torch.randn(400, 60)
    plane = probe(wide, wide @ torch.randn(60), False)
    nothing = probe(wide, torch.randn(400), False)
    assert curve is not None
    assert plane is not None
    assert nothing is not None
    assert curve.score > 0.8
    assert plane.score > 0.8
    assert nothing.score < 0.05
    assert (curve.chance, plane.chance, nothing.chance) == (0.0, 0.0, 0.0)


def test_a_rare_class_counts_as_much_as_the_frequent_one() -> None:
    labels = (torch.arange(2000) % 10 == 0).double()
    found = probe(torch.randn(2000, 4) + labels[:, None], labels, True)
    assert found is not None
    assert (found.chance, found.rows) == (0.5, 400)
    assert found.score > 0.7


def test_an_outlier_among_the_targets_changes_little() -> None:
    rows = torch.randn(400, 3)
    targets = rows.sum(1)
    targets[7] = 1e6
    found = probe(rows, targets, False)
    assert found is not None
    assert found.score > 0.8


def test_too_few_rows_are_not_probed() -> None:
    assert probe(torch.randn(130, 3), torch.randn(130), False) is None
    assert probe(torch.randn(900, 3), (torch.arange(900) < 15).double(), True) is None


def test_constant_columns_and_many_rows_do_no_harm() -> None:
    rows = torch.cat([torch.ones(5000, 2), torch.randn(5000, 2)], 1)
    found = probe(rows, (rows[:, 2] > 0).double(), True)
    assert found is not None
    assert found.rows <= 800
    assert found.score > 0.9


@pytest.mark.parametrize("classes", [False, True])
def test_tasks_that_change_from_call_to_call(classes: bool) -> None:
    calls, apart = [], []
    for _ in range(30):
        rows = torch.randn(20, 2)
        amounts = rows @ torch.randn(2)
        targets = (amounts > 0).double() if classes else amounts
        calls.append((rows, targets))
        apart.append((rows, targets[torch.randperm(20)]))
    assert differs_by_call(calls, classes)
    assert not differs_by_call(apart, classes)
    assert not differs_by_call(calls[:3], classes)


def test_no_random_number_is_drawn() -> None:
    before = torch.get_rng_state()
    probe(torch.ones(300, 2).cumsum(0), torch.arange(300).double(), False)
    assert torch.equal(before, torch.get_rng_state())
