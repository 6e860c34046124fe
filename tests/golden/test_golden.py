"""Two runs give the same bits, and the losses are those that were recorded."""

from __future__ import annotations

import os
from functools import cache

import pytest

from tests.golden.short_runs import KINDS, SHORT, Kind, fingerprint, read_record, twice_in_a_fresh_process
from trueloop.recipes.catalogue import bundled

NEAR = 1e-3
"""Relative: how far another machine, or another torch, may be off. Sums in another order differ in the seventh digit;
steps add to it."""

SLOW = {"shakespeare", "shakespeare-tiny", "mnist", "fashion-cnn", "sentiment"}
"""Five seconds and more each: digits, fashion-mlp and tabular stay."""
CASES = [
    pytest.param(name, kind, marks=[pytest.mark.long] if name in SLOW else [])
    for name in SHORT
    for kind in KINDS.get(name, ("real", "stand-in"))
]


@cache
def runs(name: str, kind: Kind) -> list[list[float]]:
    return twice_in_a_fresh_process(name, kind)


def needs_data(name: str, kind: Kind) -> None:
    if kind == "real" and name not in KINDS and not os.environ.get("TRUELOOP_DATA"):
        pytest.skip("the real data are needed: set TRUELOOP_DATA to the folder that holds them")
    if name == "digits":
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn")


def test_every_bundled_recipe_has_golden_losses() -> None:
    assert set(SHORT) == set(bundled())
    for name in SHORT:
        assert set(read_record(name)["losses"]) == set(KINDS.get(name, ("real", "stand-in")))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_two_runs_give_the_same_losses_to_the_last_bit(name: str, kind: Kind) -> None:
    needs_data(name, kind)
    first, second = runs(name, kind)
    assert len(first) == SHORT[name]["steps"]
    assert [loss.hex() for loss in first] == [loss.hex() for loss in second]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_losses_are_the_recorded_ones(name: str, kind: Kind) -> None:
    needs_data(name, kind)
    record = read_record(name)
    losses, recorded = runs(name, kind)[0], record["losses"][kind]
    if record["fingerprint"] == fingerprint():
        assert [loss.hex() for loss in losses] == [loss.hex() for loss in recorded], (
            "meant? `python -m tests.golden.record` records anew"
        )
    else:
        print(
            f"recorded on {record['fingerprint']}, run on {fingerprint()}: compared to {NEAR:g} only, not to the last "
            "bit"
        )
        assert losses == pytest.approx(recorded, rel=NEAR)


@pytest.mark.parametrize("name", sorted(SHORT))
def test_a_record_is_at_full_precision_and_shows_that_no_step_is_like_another(name: str) -> None:
    for losses in read_record(name)["losses"].values():
        assert len(losses) == SHORT[name]["steps"]
        assert len(set(losses)) == len(losses)
        assert any(len(repr(loss)) > 12 for loss in losses)
