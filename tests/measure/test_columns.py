"""Columns and rows of tensors: distributions, sentinels, leaks, digests and stretches."""

from __future__ import annotations

import pytest
import torch

from trueloop.measure.columns import as_table, column_facts
from trueloop.measure.rows import digests, stretches


@pytest.mark.parametrize(
    ("shape", "table", "kind"),
    [
        ((10, 3), (10, 3), "features"),
        ((10, 5, 3), (50, 3), "features"),
        ((10, 3, 4, 4), (160, 3), "channels"),
        ((10, 300), (3000, 1), "channels"),
    ],
)
def test_time_and_space_are_pooled(shape: tuple[int, ...], table: tuple[int, ...], kind: str) -> None:
    found, named = as_table(torch.zeros(shape))
    assert (tuple(found.shape), named) == (table, kind)


def test_a_code_for_missing_values_is_a_repeated_value_far_away() -> None:
    torch.manual_seed(0)
    table = torch.rand(200, 4, dtype=torch.double)
    table[::20, 0] = -999.0
    table[3, 1] = 999.0  # once: an outlier
    table[:, 2] = torch.relu(table[:, 2] - 0.5)
    table[:, 3] = torch.randint(0, 3, (200,)).double()
    code, outlier, zeros, categories = column_facts(table, None, classes=False)
    assert code.repeated is not None
    assert code.repeated.value == -999.0
    assert code.repeated.share == pytest.approx(0.05)
    assert min(code.repeated.gap, code.repeated.of_range) > 900
    assert outlier.repeated is None
    assert zeros.repeated is None
    assert categories.repeated is None


def test_a_column_that_encodes_the_class_is_pinned_and_a_threshold_has_no_margin() -> None:
    torch.manual_seed(0)
    table = torch.randn(400, 3, dtype=torch.double)
    targets = (table[:, 0] > 0).double()
    table[:, 1] = targets * (1 + torch.rand(400))
    threshold, encoded, noise = column_facts(table, targets, classes=True)
    assert threshold.predicts is not None
    assert threshold.predicts > 0.99
    assert threshold.margin < 0.02
    assert threshold.pinned == 0
    assert encoded.predicts == pytest.approx(1, abs=0.01)
    assert encoded.margin > 0.4
    assert 0.3 < encoded.pinned < 0.7
    assert noise.predicts is not None
    assert noise.predicts < 0.65


def test_the_correlation_with_an_amount() -> None:
    torch.manual_seed(0)
    table = torch.randn(100, 2, dtype=torch.double)
    copy, other = column_facts(table, -3 * table[:, 0] + 1, classes=False)
    assert copy.correlation == pytest.approx(-1)
    assert other.correlation is not None
    assert abs(other.correlation) < 0.3


def test_equal_rows_have_equal_digests_in_any_batch() -> None:
    torch.manual_seed(0)
    rows = torch.randn(20, 6)
    order = torch.randperm(20)
    assert [digests(rows)[i] for i in order] == digests(rows[order])
    assert len(set(digests(rows))) == 20
    assert digests(torch.tensor([[0.0, 1.0]])) == digests(torch.tensor([[-0.0, 1.0]]))
    assert digests(torch.tensor([[1, 2]])) != digests(torch.tensor([[2, 1]]))


def test_stretches_of_overlapping_windows_are_found_at_other_offsets() -> None:
    torch.manual_seed(0)
    windows = torch.randn(40).unfold(0, 12, 1)
    listed, ends = stretches(windows)
    assert int(listed[0][-1]) == int(listed[3][-4]) != 0
    assert torch.equal(ends, windows[:, -4:])
    assert set(stretches(torch.ones(3, 12))[0][0].tolist()) == {0}
    assert len(stretches(torch.randn(3, 5))[0]) == 0


def test_digests_of_many_rows_are_those_of_each_row() -> None:
    rows = torch.randn(300, 1001, generator=torch.Generator().manual_seed(0))  # read in pieces
    assert digests(rows) == [digests(row[None])[0] for row in rows]


def test_facts_of_a_column_with_gaps_and_repetitions() -> None:
    values = torch.tensor([3.0, 1.0, float("nan"), 2.0, 1.0, float("inf")])
    (column,) = column_facts(values.double()[:, None], None, False)
    assert (column.smallest, column.largest, column.distinct, column.mean) == (1.0, 3.0, 3, 1.75)
    assert values[0] == 3.0  # the user's order is kept
