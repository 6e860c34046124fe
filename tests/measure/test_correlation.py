"""One correlation for tensors, one for arrays: the same number, and 0 where nothing varies."""

import numpy
import pytest
import torch

from trueloop.measure.correlation import correlation, correlation_of_arrays


def test_both_give_the_same_number_for_any_shape() -> None:
    one = numpy.random.default_rng(0).normal(size=(6, 5))
    other = one + numpy.random.default_rng(1).normal(size=(6, 5))
    expected = correlation_of_arrays(one, other)
    assert 0.4 < expected < 0.9
    assert correlation(torch.from_numpy(one), torch.from_numpy(other)) == pytest.approx(expected)
    assert correlation_of_arrays(one, -one) == pytest.approx(-1)


def test_what_does_not_vary_is_related_to_nothing() -> None:
    constant, line = numpy.full(9, 3.0), numpy.arange(9.0)
    assert correlation_of_arrays(constant, line) == 0
    assert correlation(torch.from_numpy(constant), torch.from_numpy(line)) == 0
