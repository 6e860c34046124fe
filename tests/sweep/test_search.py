"""`--over`: grids and random draws, the same for the same command."""

from __future__ import annotations

import pytest

from trueloop.errors import Misuse
from trueloop.sweep.search import axes_of, grid, random_settings
from trueloop.sweep.trial import trial_name


def test_a_grid_has_every_combination() -> None:
    settings = grid(axes_of(["lr=1e-3,3e-3", "betas=0.9,0.95;0.9,0.99"]))
    assert [tuple(each.values()) for each in settings] == [
        ("1e-3", "0.9,0.95"), ("1e-3", "0.9,0.99"), ("3e-3", "0.9,0.95"), ("3e-3", "0.9,0.99"),
    ]  # fmt: skip
    assert grid(()) == [{}]


def test_draws_are_a_function_of_the_command() -> None:
    axes = axes_of(["lr=1e-4..1e-1", "batch=16..256", "wd=0..1", "optimizer=adamw,sgd"])
    drawn = random_settings(axes, 200, 0)
    assert random_settings(axes, 50, 0) == drawn[:50]
    assert random_settings(axes, 50, 1) != drawn[:50]
    rates = [float(each["lr"]) for each in drawn]
    assert all(1e-4 <= rate <= 1e-1 for rate in rates)
    assert 60 < sum(rate < 10**-2.5 for rate in rates) < 140  # log-uniform: the middle is 10^-2.5
    assert all(each["batch"].isdigit() and 16 <= int(each["batch"]) <= 256 for each in drawn)
    assert {each["optimizer"] for each in drawn} == {"adamw", "sgd"}


def test_a_small_space_is_exhausted() -> None:
    assert len(random_settings(axes_of(["a=1,2", "b=1,2"]), 10, 0)) == 4


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (["lr"], "expected NAME=VALUES"),
        (["=3"], "expected NAME=VALUES"),
        (["lr="], "expected NAME=VALUES"),
        (["lr=1,,2"], "empty value"),
        (["lr=1,1"], "has 1 twice"),
        (["lr=1", "lr=2"], "varies lr twice"),
        (["lr=a..b"], "is not a range"),
        (["lr=1e-1..1e-3"], "the first number must be the smaller one"),
        (["lr=1..inf"], "must be the smaller one"),
    ],
)
def test_what_cannot_be_varied_is_one_sentence(over: list[str], words: str) -> None:
    with pytest.raises(Misuse, match="Nothing was run") as refused:
        axes_of(over)
    assert words in str(refused.value)


def test_a_range_has_no_grid() -> None:
    with pytest.raises(Misuse, match="add --random N"):
        grid(axes_of(["lr=1e-4..1e-1"]))


def test_names_are_folders_and_differ() -> None:
    assert trial_name("digits-sweep", {"lr": "1e-3", "wd": "0.1"}, 2) == "digits-sweep-lr=1e-3-wd=0.1-seed=2"
    odd = [trial_name("g", {"path": value}, 0) for value in ("a/b", "a_b", "a b", "x" * 300, "x" * 301)]
    assert len(set(odd)) == 5
    assert all("/" not in name and len(name) <= 120 for name in odd)
