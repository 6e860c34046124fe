"""Samples that look real: types, shapes, ranges, and the same for every form."""

from __future__ import annotations

import numpy as np
import pytest

from trueloop.bench.inputs import LENGTH, inputs_of
from trueloop.results.artifact import Port

PICTURE = Port("input", "uint8", (None, 1, 3, 4))


def test_pictures_have_the_range_that_the_artifact_names() -> None:
    (images,) = inputs_of([PICTURE], {"kind": "image", "range": [0, 16]}, 200)
    assert images.dtype == np.uint8
    assert images.shape == (200, 1, 3, 4)
    assert (images.min(), images.max()) == (0, 16)


def test_tokens_are_known_ones_and_as_long_as_the_model_takes() -> None:
    (tokens,) = inputs_of([Port("input", "int64", (None, None), (None, 12))], {"kind": "tokens", "tokens": 50}, 100)
    assert tokens.shape == (100, 12)
    assert (tokens.min(), tokens.max()) == (0, 49)


def test_a_length_without_a_limit_is_some_length() -> None:
    (tokens,) = inputs_of([Port("input", "int64", (None, None))], {"tokens": 5}, 3)
    assert tokens.shape == (3, LENGTH)


def test_numbers_of_a_table_are_spread_around_zero() -> None:
    (rows,) = inputs_of([Port("input", "float32", (None, 9))], {"kind": "table"}, 500)
    assert rows.dtype == np.float32
    assert abs(float(rows.mean())) < 0.1
    assert 0.9 < float(rows.std()) < 1.1


def test_a_mask_is_a_mask() -> None:
    (mask,) = inputs_of([Port("mask", "bool", (None, 7))], {}, 50)
    assert mask.dtype == np.bool_
    assert 0 < mask.mean() < 1


def test_every_form_is_given_the_same() -> None:
    one, other = (inputs_of([PICTURE, Port("more", "float32", (None, 2))], {"range": [0, 255]}, 8) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_batch_that_the_model_does_not_take_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="dimension 0 of input must be 1 to 4, not 8"):
        inputs_of([Port("input", "uint8", (None, 2), (4, None))], {}, 8)


@pytest.mark.parametrize(("known", "last"), [({}, 1), ({"tokens": 1}, 1), ({"tokens": 2}, 1), ({"tokens": 3}, 2)])
def test_the_smallest_vocabularies(known: dict[str, int], last: int) -> None:
    (tokens,) = inputs_of([Port("input", "int64", (None, 4))], known, 100)
    assert (tokens.min(), tokens.max()) == (0, last)
