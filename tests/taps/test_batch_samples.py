"""Samples are recognised wherever they come again, told apart where they differ, and no random number is drawn for
it."""

from __future__ import annotations

import math

import pytest
import torch

from trueloop.measure.nonfinite import bad_rows
from trueloop.taps.batch_samples import are_windows, digests, integers, likeness, rows_of


@pytest.mark.parametrize(
    "kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]
)
def test_a_sample_has_one_digest_in_every_batch(kind: torch.dtype) -> None:
    samples = torch.arange(40 * 12).reshape(40, 3, 4).remainder(251).to(kind)
    whole = digests([samples])
    parts = [*digests([samples[7:20]]), *digests([samples[20:].flip(0)])]
    assert parts == [*whole[7:20], *whole[20:][::-1]]


def test_samples_that_differ_in_one_bit_are_told_apart() -> None:
    bits = torch.arange(2**12)[:, None] >> torch.arange(12) & 1
    for kind in (torch.float32, torch.float64, torch.int64, torch.bool):
        found = [digest for part in bits.to(kind).chunk(8) for digest in digests([part])]
        assert len(set(found)) == 2**12
    signs = (bits * 2 - 1).float()
    assert len({digest for part in signs.chunk(8) for digest in digests([part])}) == 2**12


def test_labels_are_part_of_a_sample() -> None:
    x = torch.randn(8, 3)
    assert digests([x, torch.zeros(8)]) != digests([x, torch.ones(8)])


def test_more_zeros_behind_it_do_not_change_a_sample() -> None:
    words = torch.randint(1, 100, (6, 5))
    assert digests([words]) == digests([torch.nn.functional.pad(words, (0, 4))])


def test_of_a_large_batch_some_samples_are_read() -> None:
    assert len(digests([torch.randn(20_000, 30)])) <= 10_000
    assert len(digests([torch.randn(64, 3, 128, 128)])) == 64


def test_no_random_number_of_the_run_is_drawn() -> None:
    before = torch.get_rng_state()
    digests([torch.zeros(4, 4)])
    assert torch.equal(before, torch.get_rng_state())


def test_which_tensors_count_samples() -> None:
    x, y = torch.randn(8, 3), torch.zeros(8)
    assert len(rows_of([x, y, torch.randn(5)], stacked=False)) == 2
    assert len(rows_of({"x": x}, stacked=True)) == 1
    assert not rows_of({"x": x}, stacked=False)  # it may be one sample
    assert not rows_of([torch.tensor(1.0)], stacked=True)
    assert not rows_of("text", stacked=True)


def test_labels_are_whole_numbers_one_for_each_sample() -> None:
    assert integers(torch.tensor([0.0, 1.0])) == (0, 1)
    assert integers(torch.tensor([[2], [3]])) == (2, 3)
    assert integers(torch.tensor([0.5, 1.0])) is None
    assert integers(torch.tensor([math.nan, 1.0])) is None
    assert integers(torch.zeros(4, 2)) is None


def test_neighbours_of_a_series_are_alike() -> None:
    torch.manual_seed(0)
    assert likeness(torch.randn(256, 4)) > 0.9
    assert likeness(torch.randn(256, 4).cumsum(0)) < 0.7
    assert likeness(torch.arange(16).repeat_interleave(4)) < 0.7
    assert likeness(torch.full((16, 3), math.nan)) == 1.0


def test_windows_over_a_series_are_known() -> None:
    series = torch.randn(60)
    for step in (1, 3):
        assert are_windows([series.unfold(0, 10, step)])
    assert not are_windows([torch.randn(20, 10)])
    assert not are_windows([torch.zeros(20, 10)])
    ids = torch.randint(0, 9, (6, 9))
    assert are_windows([ids[:, :-1], ids[:, 1:]])
    assert not are_windows([ids[:, :-1], ids[:, :-1]])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1.0, 2.0], None),
        ([1.0, math.nan], (1, 1, "nan")),
        ([math.inf, math.nan], (0, 2, "inf")),
        ([1.0, -math.inf], None),
        ([3e38, 3e38], None),
    ],
)
def test_the_first_sample_that_is_no_number(values: list[float], found: tuple[int, int, str] | None) -> None:
    assert bad_rows(torch.tensor(values)) == found
    assert bad_rows(torch.tensor(values)[:, None].expand(2, 5)) == found
