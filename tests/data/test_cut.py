"""Micro-batches are cut along the samples, and what all samples share is declared."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trueloop.data.cut import batch_size, cut
from trueloop.data.source import Batch
from trueloop.errors import BadData

MASK = torch.ones(4, 4)


def test_a_declared_mask_is_never_cut_also_where_its_size_is_the_batch_s() -> None:
    batch = Batch({"mask": MASK, "x": torch.arange(8).reshape(4, 2), "scale": torch.tensor(2.0)}, torch.arange(4))
    part = cut(batch, 1, 3, shared=("mask",))
    assert part.inputs["mask"] is MASK
    assert part.inputs["x"].tolist() == [[2, 3], [4, 5]]
    assert part.inputs["scale"] == 2
    assert part.targets.tolist() == [1, 2]


def test_positions_of_a_tuple_and_texts() -> None:
    batch = Batch((torch.arange(3), MASK, ["a", "b", "c"]), None)
    part = cut(batch, 1, 3, shared=(1,))
    assert part.inputs[0].tolist() == [1, 2]
    assert part.inputs[1] is MASK
    assert part.inputs[2] == ["b", "c"]
    assert part.targets is None


def test_what_is_not_one_row_per_sample_is_refused_with_what_to_write() -> None:
    batch = Batch({"mask": MASK, "x": torch.zeros(6, 2)}, torch.zeros(6))
    assert batch_size(batch) == 6
    with pytest.raises(BadData, match=r"inputs\['mask'\] is \[4, 4\], not one row per sample.*shared=\('mask',\)"):
        cut(batch, 0, 3)
    with pytest.raises(BadData, match=r"targets is \[9, 5\].*set accumulate=1"):
        cut(Batch(torch.zeros(6, 2), torch.zeros(9, 5)), 0, 3)


@pytest.mark.parametrize("batch", [Batch((), None), Batch(torch.zeros(()), torch.zeros(()))])
def test_a_batch_without_samples(batch: Any) -> None:
    with pytest.raises(BadData, match="its size is unknown"):
        batch_size(batch)
