"""Which checkpoints stay: pure decisions."""

from __future__ import annotations

import pytest

from trueloop.checkpoint.plan import name_of, obsolete, step_of


def names(*steps: int) -> list[str]:
    return [name_of(step) for step in steps]


def test_sorting_by_name_is_sorting_by_step() -> None:
    steps = [1, 9, 10, 99_999, 100_000, 12_345_678]
    assert sorted(map(name_of, steps)) == [name_of(step) for step in steps]


@pytest.mark.parametrize("step", [0, 1, 12_345_678, 123_456_789_012])
def test_a_name_says_its_step(step: int) -> None:
    assert step_of(name_of(step)) == step


@pytest.mark.parametrize(
    "name", ["", "step-", "step-1", ".writing-step-00000001", "step-00000001.old", "best.json", "step-0000000x"]
)
def test_other_names_are_no_checkpoints(name: str) -> None:
    assert step_of(name) is None


def test_the_last_few_and_the_best_stay() -> None:
    assert obsolete(names(10, 20, 30, 40), 2, name_of(40), name_of(10)) == names(20)
    assert obsolete(names(10, 20, 30, 40), 2, name_of(40), name_of(40)) == names(10, 20)
    assert obsolete(names(10, 20, 30, 40), 9, name_of(40), None) == []


def test_what_was_just_written_always_stays() -> None:
    assert obsolete(names(10), 0, name_of(10), None) == []
    assert obsolete(names(10, 20), 0, name_of(20), None) == names(10)


def test_a_damaged_later_one_does_not_push_out_whole_ones() -> None:
    """A run that passed over step 200 goes on from 100: with keep=1, what it writes at 120 must not be taken for
    old."""
    assert obsolete(names(100, 120, 200), 1, name_of(120), None) == names(100)
    assert obsolete(names(100, 120, 200), 2, name_of(120), None) == []


def test_other_things_in_the_folder_are_left_alone() -> None:
    assert obsolete(["notes.txt", *names(10, 20)], 1, name_of(20), None) == names(10)
