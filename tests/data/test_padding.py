"""Sequences of different lengths in one batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trueloop.data.dataset import Dataset
from trueloop.data.padding import IGNORE, padded
from trueloop.errors import BadData


def refusal(*items: Any) -> str:
    with pytest.raises(BadData) as raised:
        padded(items)
    return str(raised.value)


def test_shorter_sequences_are_filled_up() -> None:
    inputs, targets = padded([([5, 6, 7], 1), ([8], 0)])
    assert inputs.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert inputs.dtype == torch.int64
    assert targets.tolist() == [1, 0]
    assert targets.dtype == torch.int64


@pytest.mark.parametrize(
    "made", [list, tuple, torch.tensor, np.array, lambda ids: torch.tensor(ids, dtype=torch.int32)]
)
def test_whatever_holds_the_numbers(made: Any) -> None:
    inputs, _ = padded([(made([5, 6, 7]), 1), (made([8]), 0)], pad=9)
    assert inputs.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert inputs.dtype == torch.int64


def test_targets_that_are_sequences_are_filled_with_what_losses_pass_over() -> None:
    _, targets = padded([([5, 6], [1, 2]), ([7], [3])])
    assert targets.tolist() == [[1, 2], [3, IGNORE]]
    assert padded([([5, 6], [1, 2]), ([7], [3])], ignore=-1)[1].tolist() == [[1, 2], [3, -1]]


def test_quantities_stay_fractions() -> None:
    inputs, targets = padded([(torch.ones(2, 3), 0.5), (torch.ones(1, 3), torch.tensor(1.5))])
    assert inputs.shape == (2, 2, 3)
    assert inputs[1, 1].tolist() == [0, 0, 0]
    assert targets.tolist() == [0.5, 1.5]


def test_empty_sequences_are_all_padding() -> None:
    assert padded([([], 0), ([4], 1)], pad=2)[0].tolist() == [[2], [4]]
    assert padded([([], 0), ([], 1)], pad=2)[0].tolist() == [[2], [2]]


@given(st.lists(st.lists(st.integers(1, 99), max_size=9), min_size=1, max_size=8))
def test_what_is_not_padding_is_what_was_given(sequences: list[list[int]]) -> None:
    inputs, _ = padded([(ids, 0) for ids in sequences])
    assert inputs.shape == (len(sequences), max(1, *map(len, sequences), 0))
    assert [[token for token in row if token] for row in inputs.tolist()] == sequences


def test_the_mean_loss_does_not_see_the_padding() -> None:
    scores = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(0))
    _, targets = padded([([5, 6], [1, 2]), ([7], [3])])
    loss = torch.nn.functional.cross_entropy(scores, targets, reduction="sum")
    alone = sum(
        torch.nn.functional.cross_entropy(scores[row, :, time], torch.tensor(label))
        for row, time, label in [(0, 0, 1), (0, 1, 2), (1, 0, 3)]
    )
    assert torch.allclose(loss, torch.as_tensor(alone))


def test_what_cannot_be_padded_is_named() -> None:
    assert refusal(([1], 0), ("hello", 1)) == "Item 1 of a batch has 'hello' as its inputs: numbers are needed."
    assert refusal(([1], "pos")).startswith("Item 0 of a batch has 'pos' as its target")
    assert refusal((["a", "b"], 0)).startswith("Item 0 of a batch has ['a', 'b'] as its inputs")
    assert refusal((3, 0)).startswith("Item 0 of a batch has a scalar as its inputs, not a sequence.")
    assert refusal([1, 2, 3]).startswith("Item 0 of a batch is a list, not a pair")
    assert "inputs of shape [1, 4], the first has [1, 3]" in refusal((torch.ones(1, 3), 0), (torch.ones(1, 4), 0))
    assert "target of shape [2], the first has []" in refusal(([1], 0), ([1], [1, 2]))


def test_it_is_a_collate_for_datasets() -> None:
    source = Dataset([([5, 6, 7], 1), ([8], 0)], collate=partial(padded, pad=3))
    assert source.fetch(torch.tensor([1, 0])).inputs.tolist() == [[8, 3, 3], [5, 6, 7]]


def test_inside_a_dataset_the_sample_is_named() -> None:
    source = Dataset([([5], 1), ([8], "pos")], collate=padded)
    with pytest.raises(BadData, match="The target of sample 1 is the text 'pos'"):
        source.fetch(torch.tensor([1, 0]))
