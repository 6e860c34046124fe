"""Successive halving by optuna: of three runs with as many evaluations, the best goes on."""

from __future__ import annotations

import warnings

import pytest

from trueloop.sweep.halving import Halving

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("optuna")


@pytest.mark.parametrize("higher", [True, False])
def test_runs_that_are_behind_are_ended(higher: bool) -> None:
    halving = Halving()
    sign = 1 if higher else -1
    good = [sign * value for value in (0.5, 0.6, 0.7, 0.8)]
    bad = [sign * value for value in (0.1, 0.1, 0.1, 0.1)]
    for name in ("first", "second", "third"):
        assert not halving.is_hopeless(name, good, higher_is_better=higher)
        halving.end(name, good, higher_is_better=higher, halved=False)
    assert halving.is_hopeless("behind", bad[:1], higher_is_better=higher)
    halving.end("behind", bad[:1], higher_is_better=higher, halved=True)
    better = [value + sign for value in good]
    assert not halving.is_hopeless("ahead", better, higher_is_better=higher)


def test_a_run_without_values_is_no_reason_to_fail() -> None:
    Halving().end("failed", [], higher_is_better=True, halved=False)
