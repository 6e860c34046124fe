"""Lengths that do not say where padded sequences end; and lengths, or arrays, that only look so."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from trueloop.measure.tables import Table, Values
from trueloop.measure.wrong_lengths import ends_of_rows, wrong_lengths

Array = NDArray[Any]


def sequences(seed: int, *, channels: int = 0) -> tuple[Array, Array]:
    draw = numpy.random.default_rng(seed)
    ends = draw.integers(8, 41, 200)
    shape = (200, 40, channels) if channels else (200, 40)
    content = draw.normal(size=shape) if channels else draw.integers(1, 90, shape)
    inside = numpy.arange(40) < ends[:, None]
    return numpy.where(inside[..., None] if channels else inside, content, 0), ends


def stored(array: Array, **columns: Array) -> Table:
    values = tuple(Values(name, column.astype(float), None, "int64") for name, column in columns.items())
    return Table("train.npz", values, len(array), True, arrays=(("ids", array),))


def factor(array: Array, lengths: Array, **more: Array) -> float | None:
    both = stored(array, lengths=lengths, **more)
    found = wrong_lengths(both, both)
    return None if found is None else found.factor


@pytest.mark.parametrize("channels", [0, 3])
def test_lengths_in_a_different_unit(channels: int) -> None:
    array, ends = sequences(0, channels=channels)
    assert factor(array, (ends + 1) // 2) == pytest.approx(2, abs=0.1)
    assert factor(array, ends * 4) == pytest.approx(0.25)
    noise = numpy.random.default_rng(1).integers(2, 7, 200)
    assert factor(array, numpy.minimum(ends + noise * 2, 40)) == 0  # characters instead of tokens: into the padding


def test_lengths_in_a_file_of_their_own() -> None:
    array, ends = sequences(0)
    for path, wrong in (("train_len.npy", True), ("train_y.npy", False)):
        alone = Table(path, (Values("", (ends // 2).astype(float), None, "int64"),), 200, True)
        assert (wrong_lengths(alone, stored(array)) is not None) == wrong


@pytest.mark.parametrize("seed", range(3))
def test_lengths_that_are_right(seed: int) -> None:
    array, ends = sequences(seed)
    draw = numpy.random.default_rng(seed)
    assert factor(array, ends) is None
    assert factor(array, ends + 1) is None  # with an end token
    assert factor(array, ends - 1) is None
    assert factor(array, numpy.where(draw.random(200) < 0.5, ends, ends // 2)) is None  # some are right
    assert factor(array, ends // 2, n_tokens=ends) is None  # lengths of something else, beside the right ones
    assert factor(array, numpy.full(200, 40)) is None  # no lengths at all
    assert factor(array, draw.integers(1, 40, 200)) is None  # of something else


def test_padding_that_is_content_does_not_show_an_end() -> None:
    array, _ = sequences(0)
    array[:, ::5] = 0
    assert ends_of_rows(array) is None
    assert ends_of_rows(numpy.random.default_rng(0).integers(1, 9, (200, 40))) is None


def test_rows_that_may_end_in_content_like_the_padding() -> None:
    array, ends = sequences(0)
    array = numpy.where(numpy.random.default_rng(3).random(array.shape) < 0.08, 0, array)  # no flow at some hours
    assert ends_of_rows(array) is None
    even = numpy.where(numpy.arange(40) < (ends - ends % 2)[:, None], array, 0)
    assert factor(even, ends // 2) == 2
    assert factor(array, ends) is None
    assert factor(array, numpy.random.default_rng(1).integers(4, 21, 200)) is None
    assert factor(array, ends - 3) is None


def test_lengths_that_are_rounded_to_a_few_numbers() -> None:
    array, ends = sequences(0, channels=3)
    assert factor(array, -(-ends // 10) + 0) is None  # 1, 2, 3, 4: the number of a bin
    inside = ends >= 16
    kept = numpy.concatenate([array[inside]] * 2)
    seconds = numpy.concatenate([ends[inside]] * 2) / 10
    for rounded in (numpy.ceil, numpy.round):
        found = factor(kept, rounded(seconds))
        assert found is not None
        assert 9 < found < 11
    draw = numpy.random.default_rng(4)
    assert factor(kept, numpy.maximum(2, numpy.ceil(seconds + draw.normal(0, 0.3, len(kept))))) is None  # laps
