"""Numbers that wrapped around beside their inputs; and numbers that are small, clipped, missing or in another unit."""

from __future__ import annotations

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.wrapped_targets import wrapped

Floats = NDArray[numpy.float64]


def echoes(rows: int, seed: int, deepest: float = 440) -> tuple[Floats, Floats]:
    """Depths, and an echo whose place tells each."""
    draw = numpy.random.default_rng(seed)
    depth = numpy.round(draw.uniform(0, deepest, rows))
    places = numpy.arange(40) - depth[:, None] / 12
    return depth, numpy.exp(-((places / 2) ** 2)) + draw.normal(0, 0.05, (rows, 40))


def test_depths_that_began_anew_at_256() -> None:
    (depth, echo), (others, there) = echoes(600, 0), echoes(300, 1)
    found = wrapped(depth % 256, echo, others, there)
    assert found is not None
    assert found.bits == 8
    assert found.between < 0.05
    assert wrapped(depth, echo, others, there) is None
    assert wrapped(others, there, depth % 256, echo) is None


def test_signed_16_bits() -> None:
    (depth, echo), (others, there) = echoes(600, 0), echoes(300, 1)
    depth, others = depth * 200, others * 200
    found = wrapped((depth + 2**15) % 2**16 - 2**15, echo, others, there)
    assert found is not None
    assert found.bits == 16


@pytest.mark.parametrize(
    "stored",
    [
        lambda depth: depth.clip(0, 255),
        lambda depth: numpy.round(depth * 255 / 440),  # in another unit
        lambda depth: numpy.where(depth > 255, 0, depth),  # 0: missing
        lambda depth: numpy.random.default_rng(2).integers(0, 256, len(depth)).astype(float),  # says nothing
        lambda depth: numpy.abs(depth - 255).clip(0, 255),  # measured from a different place
        lambda depth: numpy.round(255 - depth * 255 / 440),
    ],
)
def test_other_numbers_that_fill_a_byte(stored: object) -> None:
    (depth, echo), (others, there) = echoes(600, 0), echoes(300, 1)
    assert wrapped(stored(depth), echo, others, there) is None  # type: ignore[operator]


def test_a_shallow_pond() -> None:
    (depth, echo), (others, there) = echoes(600, 0, 255), echoes(300, 1)
    assert wrapped(depth, echo, others, there) is None


def test_inputs_that_say_nothing() -> None:
    (depth, _), (others, there) = echoes(600, 0), echoes(300, 1)
    assert wrapped(depth % 256, numpy.random.default_rng(3).normal(size=(600, 40)), others, there) is None
