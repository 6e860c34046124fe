"""Files of two kinds that are read in turn: one kind sorted as text, the other by number; and in other orders."""

from __future__ import annotations

import random

import pytest

from trueloop.measure.file_pairs import files_out_of_step


def in_turn(waves: list[int], wears: list[int]) -> list[str]:
    return [
        path for i, j in zip(waves, wears, strict=True) for path in (f"/d/waves/run{i}.npy", f"/d/wear/wear{j}.npy")
    ]


def as_text(numbers: list[int]) -> list[int]:
    return sorted(numbers, key=str)


def test_one_kind_is_sorted_as_text() -> None:
    train, valid = list(range(1, 25)), list(range(25, 30))
    found = files_out_of_step(in_turn(as_text(train) + valid, train + valid) * 2)
    assert found is not None
    assert (found.file, found.other) == ("/d/waves/run10.npy", "/d/wear/wear2.npy")
    assert (found.pairs, found.wrong) == (29, 23)
    assert files_out_of_step(["/d/config.json", *in_turn(train, as_text(train))]) is not None


@pytest.mark.parametrize("order", ["same", "text", "shuffled", "pairs", "few", "one after the other", "other numbers"])
def test_other_orders(order: str) -> None:
    numbers = list(range(1, 25))
    shuffled = random.Random(0).sample(numbers, len(numbers))
    paths = {
        "same": in_turn(numbers, numbers),
        "text": in_turn(as_text(numbers), as_text(numbers)),
        "shuffled": in_turn(shuffled, shuffled),
        "pairs": in_turn(shuffled, numbers),  # each with one of a different number on purpose
        "few": in_turn(as_text(list(range(5, 12))), list(range(5, 12))),
        "one after the other": [f"/d/waves/run{i}.npy" for i in as_text(numbers)]
        + [f"/d/wear/wear{i}.npy" for i in numbers],
        "other numbers": in_turn(as_text(numbers), [number + 100 for number in numbers]),
    }
    assert files_out_of_step(paths[order]) is None
