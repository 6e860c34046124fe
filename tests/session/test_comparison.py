"""Runs side by side: what differs, and the first step at which the losses do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tests.session.made import FINISHED, MACHINE, made, timed
from tests.track.rows import on_test, trained, validated
from trueloop.hook import Row
from trueloop.session.comparison import Parting, compared, parting

ROWS = (trained(50, 0.5), validated(60, 0.9, 0.4), trained(100, 0.25), validated(120, 0.95, 0.3))


def test_only_what_differs_is_told(tmp_path: Path) -> None:
    first = made(tmp_path, "a", ROWS)
    second = made(
        tmp_path, "b", ROWS, recipe={"lr": 0.001, "new": True}, machine={**MACHINE, "torch": "2.14.0"}, data="elsewhere"
    )
    seen = compared([first, second])
    assert seen.recipe == {"lr": (0.003, 0.001), "new": (None, True), "--data": (None, "elsewhere")}
    assert seen.machine == {"torch": ("2.13.0", "2.14.0")}
    assert seen.labels == ("a", "b")


def test_other_samples_of_the_same_recipe_are_told(tmp_path: Path) -> None:
    def run(name: str, digest: str | None, **more: Any) -> Path:
        splits = {"train": {"samples": 90, "digest": digest}, "valid": {"samples": 10, "digest": "5" * 32}}
        return made(tmp_path, name, ROWS, data_fingerprint=splits, **more)

    seen = compared([run("a", "0" * 32), run("b", "1" * 32)])
    assert seen.recipe == {"data: train": ("90 samples, digest 00000000", "90 samples, digest 11111111")}
    assert compared([run("c", "0" * 32), run("d", "0" * 32)]).recipe == {}
    assert compared([run("e", "0" * 32, recipe={"seed": 0}), run("f", "1" * 32, recipe={"seed": 1})]).recipe == {
        "seed": (0, 1)
    }, "the digest is of samples that the seed chooses"
    assert compared([made(tmp_path, "g", ROWS, data_fingerprint=[3]), run("h", None)]).recipe == {
        "data: valid": (None, "10 samples, digest 55555555")
    }


def test_the_same_recipe_on_the_same_machine_differs_in_nothing(tmp_path: Path) -> None:
    seen = compared([made(tmp_path, "a", ROWS), made(tmp_path, "b", ROWS)])
    assert (seen.recipe, seen.machine) == ({}, {})
    assert seen.partings == (Parting("b", 4),)


def test_results_stand_side_by_side(tmp_path: Path) -> None:
    first = made(tmp_path, "a", [*ROWS, on_test(120, 0.97)], **FINISHED)
    second = made(
        tmp_path, "b", [trained(50, 0.75, samples_per_second=100.0), trained(100, 0.5, samples_per_second=300.0)]
    )
    timed(first, 2.0)
    timed(second, 3.0)
    assert compared([first, second]).results == {
        "status": ("finished", "killed"),
        "steps": (200, 100),
        "best accuracy": (0.985, None),
        "test accuracy": (0.97, None),
        "test loss": (0.2, None),
        "last training loss": (0.25, 0.5),
        "seconds": (8.0, 6.0),
        "samples per second": (1740.0, 200.0),
    }


def test_three_runs_are_each_held_against_the_first(tmp_path: Path) -> None:
    other = (*ROWS[:2], trained(100, 0.26))
    seen = compared([made(tmp_path, "a", ROWS), made(tmp_path, "b", ROWS), made(tmp_path, "c", other)])
    assert [(each.other, each.step) for each in seen.partings] == [("b", None), ("c", 100)]


def test_runs_that_share_a_name_are_called_by_their_paths(tmp_path: Path) -> None:
    first, second = made(tmp_path / "x", "digits", ROWS), made(tmp_path / "y", "digits", ROWS)
    assert compared([first, second]).labels == (str(first), str(second))


def test_runs_without_a_row_can_be_compared(tmp_path: Path) -> None:
    seen = compared([made(tmp_path, "a", metric=None), made(tmp_path, "b", ROWS)])
    assert seen.partings == (Parting("b", 0),)
    assert seen.results["last training loss"] == (None, 0.25)


# -- from which step on --


def test_losses_are_compared_to_the_last_bit() -> None:
    close = math.nextafter(0.25, 1)
    assert parting("b", ROWS, ROWS) == Parting("b", 4)
    assert parting("b", ROWS, (*ROWS[:2], trained(100, close))) == Parting("b", 3, 100, "train", 0.25, close)


def test_a_validation_can_be_the_first_to_differ() -> None:
    other = (ROWS[0], validated(60, 0.9, 0.5), *ROWS[2:])
    assert parting("b", ROWS, other) == Parting("b", 2, 60, "valid", 0.4, 0.5)


def test_nan_is_equal_to_nan_and_to_nothing_else() -> None:
    broken = [trained(50, math.nan)]
    assert parting("b", broken, broken).step is None
    assert parting("b", broken, [trained(50, 0.5)]).step == 50


def test_means_over_other_steps_are_not_compared() -> None:
    every_50 = [trained(50, 0.5), trained(100, 0.25)]
    every_100 = [trained(100, 0.375)]  # of steps 1 to 100, not of 51 to 100
    assert parting("b", every_50, every_100) == Parting("b", 0)
    both = [validated(100, 0.9, 0.3)]
    assert parting("b", [*every_50, *both], [*every_100, *both]) == Parting("b", 1)


def test_rows_without_a_loss_are_passed_over() -> None:
    rows = [Row("valid", 60, 3.0, {"accuracy": 0.9})]
    assert parting("b", rows, rows) == Parting("b", 0)
