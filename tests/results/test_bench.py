"""The words of a bench: percentiles that were measured, throughput over all calls, speed against the first form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trueloop.results.bench import Bench, Form, Pace, percentile


def form(name: str, medians: dict[int, float], failed: str = "") -> Form:
    paces = tuple(Pace.of(batch, [seconds] * 3) for batch, seconds in medians.items())
    return Form(name, "torch 2.13.0" if medians else "", 1000, paces, 0.5, failed)


MACHINE = {"processor": "a processor", "system": "Linux", "cores": 2, "threads": 1, "versions": {"torch": "2.13.0"}}
FORMS = (
    form("eager", {1: 2e-3, 8: 4e-3}),
    form("onnx", {1: 1e-3, 8: 8e-3}),
    form("odd", {1: 4e-3}, "batch 8: it takes 4 at most"),
    form("none", {}, "no file"),
)
TOLD = Bench(FORMS, (1, 8), MACHINE, seconds=3.0, rounds=10, notes=("a note",))


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_of_a_hundred_values(share: float, value: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value


def test_of_one_value_every_percentile_is_that_value() -> None:
    assert {percentile([7.0], share) for share in (0.01, 0.5, 0.99, 1.0)} == {7.0}


def test_of_no_values_there_is_none() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        percentile([], 0.5)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_percentile_was_measured_and_so_large_a_share_is_no_larger(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


def test_throughput_counts_samples_and_slow_calls_too() -> None:
    pace = Pace.of(8, [0.1] * 9 + [1.1])
    assert pace.p50 == 0.1
    assert pace.p99 == 1.1
    assert pace.per_second == pytest.approx(80 / 2.0)
    assert pace.calls == 10


def test_speed_is_against_the_first_form_that_has_numbers() -> None:
    assert TOLD.times(TOLD.forms[0], 1) == 1.0
    assert TOLD.times(TOLD.forms[1], 1) == 2.0
    assert TOLD.times(TOLD.forms[1], 8) == 0.5
    assert TOLD.times(TOLD.forms[2], 8) is None
    assert TOLD.times(TOLD.forms[3], 1) is None


def test_the_plain_form_has_every_number() -> None:
    told = TOLD.plain()
    assert [each["name"] for each in told["forms"]] == ["eager", "onnx", "odd", "none"]
    assert told["forms"][1]["paces"][0]["p50"] == 1e-3
    assert told["machine"] == MACHINE
