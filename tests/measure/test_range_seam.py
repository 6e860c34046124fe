"""Numbers that passed the end of an integer's range; and numbers that only fill it."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.integer_overflow import overflowed_alone
from trueloop.measure.range_seam import ranges
from trueloop.measure.wrapped_targets import wrapped_among_rows

Floats = NDArray[numpy.float64]
Draw = numpy.random.Generator
TIME = numpy.arange(96)


def by_rank(values: Floats, low: int, high: int) -> Floats:
    ranks = values.ravel().argsort().argsort().reshape(values.shape) / values.size
    return numpy.floor(low + ranks * (high - low + 1))


def walk(draw: Draw, start: float, step: float = 8) -> Floats:
    return draw.uniform(0, start, (400, 1)) + numpy.cumsum(draw.normal(0, step, (400, 96)), 1)


def sine(draw: Draw) -> Floats:
    return numpy.sin(2 * numpy.pi * (draw.integers(2, 5, (400, 1)) * TIME / 96 + draw.random((400, 1))))


def test_the_range_that_numbers_fill() -> None:
    assert list(ranges(numpy.array([0.0, 7.0, 255.0]))) == [(0.0, 256.0)]
    assert list(ranges(numpy.array([-32768.0, 32767.0]))) == [(-32768.0, 65536.0)]
    assert not list(ranges(numpy.array([0.0, 0.5, 255.0])))
    assert not list(ranges(numpy.array([0.0, 260.0])))


def test_signals_that_wrapped_around() -> None:
    draw = numpy.random.default_rng(0)
    rising = numpy.round(20 + 500 * draw.random((400, 1)) * TIME / 96 + draw.normal(0, 6, (400, 96))).clip(0) % 256
    found = overflowed_alone(rising)
    assert found is not None
    assert found.bits == 8
    assert overflowed_alone(numpy.stack([rising, rising // 3], 1)) is not None  # beside another channel
    loud = overflowed_alone((numpy.round(sine(draw) * draw.uniform(3e4, 9e4, (400, 1))) + 2**15) % 2**16 - 2**15)
    assert loud is not None
    assert loud.bits == 16


@pytest.mark.parametrize(
    "signal",
    [
        lambda draw: numpy.round(sine(draw) * 127.5 - 0.5),
        lambda draw: numpy.round(sine(draw) * 200).clip(-128, 127),
        lambda draw: draw.integers(-128, 128, (400, 96)).astype(float),
        lambda draw: numpy.round(draw.normal(0, 60, (400, 96))).clip(-128, 127),
        lambda draw: by_rank(walk(draw, 1), 0, 255),
        lambda draw: by_rank(numpy.exp(walk(draw, 1, 0.3)) * draw.normal(size=(400, 96)), -128, 127),
        lambda draw: numpy.floor(walk(draw, 256) % 256),  # headings
        lambda draw: numpy.floor(walk(draw, 256) % 256) - 128,
        lambda draw: (TIME + draw.integers(0, 256, (400, 1))) % 256.0,  # counters
        lambda draw: numpy.floor((TIME * draw.uniform(1, 20, (400, 1)) + draw.uniform(0, 256, (400, 1))) % 256),
        lambda draw: numpy.where(draw.random((400, 96)).cumsum(1) % 9 < 5, 235, 20) + draw.integers(-15, 16, (400, 96)),
    ],
)
def test_signals_that_fill_the_range(signal: Callable[[Draw], Floats]) -> None:
    assert overflowed_alone(numpy.asarray(signal(numpy.random.default_rng(0)), numpy.float64)) is None


def test_columns_that_wrapped_around() -> None:
    draw = numpy.random.default_rng(1)
    x = draw.normal(size=(3000, 4))
    whole = numpy.round(30000 * x[:, 0] + 20000 * x[:, 1] + draw.normal(0, 3000, 3000))
    found = wrapped_among_rows((whole + 2**15) % 2**16 - 2**15, x)
    assert found is not None
    assert found.bits == 16
    assert wrapped_among_rows((whole + 2**15) % 2**16 - 2**15, x[::-1]) is None  # beside rows that say nothing


@pytest.mark.parametrize(
    "column",
    [
        lambda draw, x: by_rank(x[:, 0] + draw.normal(0, 0.3, 2000), 0, 255),
        lambda draw, x: by_rank(x[:, 0] + draw.normal(0, 2, 2000), 0, 65535),
        lambda draw, x: numpy.where(draw.random(2000) < 0.5, 1, -1) * by_rank(abs(x[:, 0]), 0, 127),  # sign unknown
        lambda draw, x: by_rank(numpy.exp(x[:, 0]) * draw.normal(size=2000), -128, 127),
        lambda draw, x: numpy.round(128 + 70 * x[:, 0] + draw.normal(0, 20, 2000)).clip(0, 255),
        lambda draw, _: draw.integers(0, 256, 2000).astype(float),
        lambda draw, _: numpy.where(draw.random(2000) < 0.5, draw.integers(200, 256, 2000), draw.integers(0, 56, 2000)),
    ],
)
def test_columns_that_fill_the_range(column: Callable[[Draw, Floats], Floats]) -> None:
    draw = numpy.random.default_rng(2)
    x = draw.normal(size=(2000, 3))
    assert wrapped_among_rows(numpy.asarray(column(draw, x), numpy.float64), x) is None
