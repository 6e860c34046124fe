"""Rows drawn into train, valid and test."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trueloop.data.split import split_numbers


@given(st.integers(1, 300), st.integers(0, 5))
def test_every_sample_is_in_exactly_one_part(count: int, seed: int) -> None:
    parts = split_numbers(count, seed)
    assert torch.cat(parts).sort().values.tolist() == list(range(count))
    assert len(parts[0]) >= 1


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200))
def test_with_labels_too_and_all_classes_are_learned_from(labels: list[int]) -> None:
    given_labels = torch.tensor(labels)
    parts = split_numbers(len(labels), 0, given_labels)
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))
    assert set(given_labels[parts[0]].tolist()) == set(labels)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200))
def test_a_class_of_three_is_in_every_part(labels: list[int]) -> None:
    given_labels = torch.tensor(labels)
    often = {label for label in labels if labels.count(label) >= 3}
    for part in split_numbers(len(labels), 3, given_labels):
        assert often <= set(given_labels[part].tolist())


def test_the_shares_are_70_15_and_15() -> None:
    assert [len(part) for part in split_numbers(1000, 0)] == [700, 150, 150]
    labels = torch.tensor([0] * 900 + [1] * 100)
    train, valid, test = split_numbers(1000, 0, labels)
    assert [len(train), len(valid), len(test)] == [700, 150, 150]
    assert [int(labels[part].sum()) for part in (train, valid, test)] == [70, 15, 15]


def test_the_seed_decides_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    first = split_numbers(100, 7)
    before = torch.get_rng_state()
    second = split_numbers(100, 7)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first[0], split_numbers(100, 8)[0])


@pytest.mark.parametrize(("count", "sizes"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (4, [2, 1, 1])])
def test_the_smallest_sets_leave_something_to_learn_from(count: int, sizes: list[int]) -> None:
    assert [len(part) for part in split_numbers(count, 0)] == sizes


def test_a_part_that_is_not_wanted_stays_empty() -> None:
    assert [len(part) for part in split_numbers(100, 0, test=0)] == [85, 15, 0]
