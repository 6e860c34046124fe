"""Columns of the table of runs."""

from trueloop.ui.pages.runs import differing


def test_only_fields_with_several_values_are_columns() -> None:
    assert differing([{"lr": 1e-3, "batch": 64}, {"lr": 3e-3, "batch": 64}]) == ["lr"]
    assert differing([{"lr": 1e-3, "batch": 64}]) == []


def test_a_damaged_run_and_a_run_of_another_kind_make_no_columns() -> None:
    trained = [{"lr": 1e-3, "batch": 64}, {"lr": 3e-3, "batch": 64}]
    assert differing([{}, *trained, {"script": "train.py"}]) == ["lr"]


def test_fields_with_few_values_come_first() -> None:
    runs = [{"zeta": number % 2, "alpha": number} for number in range(30)]
    assert differing(runs) == ["zeta", "alpha"]
