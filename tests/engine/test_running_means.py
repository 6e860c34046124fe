"""Means over steps: exact over many values, without those that are not finite, and the same after a resume."""

from __future__ import annotations

import math

import pytest
import torch

from trueloop.engine.running_means import KEPT, RunningMeans

HOST = torch.device("cpu")


def test_means_of_tensors_and_numbers() -> None:
    means = RunningMeans(HOST)
    for number in range(2 * KEPT + 5):
        means.add({"a": torch.tensor(float(number)), **({"b": 2} if number % 2 else {})})
    assert means.take() == pytest.approx({"a": (2 * KEPT + 4) / 2, "b": 2.0})
    assert means.take() == {}


def test_a_non_finite_value_does_not_count() -> None:
    means = RunningMeans(HOST)
    for value in (1.0, math.nan, 3.0, math.inf):
        means.add({"a": torch.tensor(value)})
    means.add({"never": math.nan})
    assert means.take() == {"a": 2.0}


@pytest.mark.parametrize("saved", [1, 100, KEPT, KEPT + 7])
def test_a_resumed_mean_has_the_same_bits(saved: int) -> None:
    values = torch.rand(2 * KEPT, generator=torch.Generator().manual_seed(0))
    whole, first, rest = (RunningMeans(HOST) for _ in range(3))
    for number, value in enumerate(values):
        if number == saved:
            rest.restore(first.state())
        whole.add({"a": value})
        (first if number < saved else rest).add({"a": value})
    assert whole.take() == rest.take()


def test_a_value_is_what_it_was_when_it_was_added() -> None:
    means, value = RunningMeans(HOST), torch.full((), 2.0)
    means.add({"a": value})
    value.fill_(100.0)
    again = RunningMeans(HOST)
    again.restore(means.state())
    again.add({"a": 4.0})
    assert again.take() == {"a": 3.0}
    assert means.take() == {"a": 2.0}
