"""Times that float32 has rounded, and times that are far apart by nature."""

from __future__ import annotations

import numpy
import pytest

from trueloop.measure.rounded_times import rounded_times

DRAW = numpy.random.default_rng(0)
CLICKS = (1.705e9 + numpy.cumsum(DRAW.exponential(10.0, 6000))).round(2)


def as_float32(values: numpy.ndarray) -> numpy.ndarray:
    return values.astype(numpy.float32).astype(numpy.float64)


@pytest.mark.parametrize("unit", [1, 1000])
def test_clicks_that_float32_has_rounded(unit: int) -> None:
    found = rounded_times(as_float32(CLICKS * unit))
    assert found is not None
    assert found.step == (128 if unit == 1 else 131_072)
    assert found.equal > 0.8


@pytest.mark.parametrize(
    "times",
    [
        CLICKS,
        CLICKS.round(),
        1.7e9 // 86_400 * 86_400 + 86_400.0 * numpy.sort(DRAW.integers(0, 200, 3000)),  # days
        1.7e9 // 900 * 900 + 900.0 * numpy.sort(DRAW.integers(0, 2000, 3000)),  # quarters of an hour
        as_float32(1.7e9 + 3600.0 * numpy.arange(3000)),  # rounded, but neighbors stay apart
        as_float32(CLICKS - 1.7e9),
        as_float32(CLICKS)[:100],
    ],
)  # fmt: skip
def test_other_times(times: numpy.ndarray) -> None:
    assert rounded_times(times) is None
