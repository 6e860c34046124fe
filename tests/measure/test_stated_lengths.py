"""Lengths in a different unit than the positions of padded sequences, as they are used; and lengths that are not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trueloop.measure.stated_lengths import ends_of_content, unit_of


def drawn(seed: int, rows: int = 200, widest: int = 60) -> Tensor:
    return torch.randint(6, widest + 1, (rows,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("divisor", [2, 3, 5])
@pytest.mark.parametrize("more", [0, 1])
def test_lengths_that_count_something_coarser(divisor: int, more: int) -> None:
    ends = drawn(0)
    found = unit_of(ends // divisor + more, ends)
    assert found is not None
    assert found.factor == pytest.approx(divisor, rel=0.1)
    assert found.rows == 200


@pytest.mark.parametrize("seed", range(4))
def test_lengths_that_are_right_or_something_else(seed: int) -> None:
    ends = drawn(seed)
    assert unit_of(ends, ends) is None
    assert unit_of(ends - 1, ends) is None  # without an end token
    assert unit_of(ends - 5, ends) is None
    assert unit_of(drawn(seed + 9), ends) is None
    assert unit_of((ends * torch.rand(200)).long().clamp(min=1), ends) is None  # parts of any size
    assert unit_of(ends.clamp(max=20), ends) is None  # cut at a longest length
    assert unit_of(torch.where(torch.arange(200) % 10 == 0, ends, ends // 3), ends) is None  # some are right
    assert unit_of(ends[:40] // 3, ends[:40]) is None  # few


def test_sentences_instead_of_words() -> None:
    draw = torch.Generator().manual_seed(3)
    sentences = torch.randint(2, 7, (200,), generator=draw)
    words = sentences * 6 + torch.randint(-2, 3, (200,), generator=draw)
    found = unit_of(sentences, words)
    assert found is not None
    assert found.factor == pytest.approx(6, rel=0.1)
    assert unit_of(sentences, torch.randint(12, 40, (200,), generator=draw)) is None
    assert unit_of((words * 0.4).long(), words + 3 * sentences[torch.randperm(200, generator=draw)]) is None


def test_the_end_of_content() -> None:
    ends = drawn(1, 32, 30)
    content = torch.randn(32, 30, 4)
    padded = torch.where((torch.arange(30) < ends[:, None])[..., None], content, torch.tensor([0.0, 1.0, 2.0, 3.0]))
    padded[:, 0] = padded[0, -1] if ends[0] < 30 else padded[int(ends.argmin()), -1]  # also the first vector
    found = ends_of_content(padded)
    assert found is not None
    assert found.tolist() == ends.tolist()
    assert ends_of_content(content) is None  # without padding
    assert ends_of_content(padded[:, :5]) is None
    assert ends_of_content(torch.zeros(32, 30, 4)) is not None  # every row is empty
