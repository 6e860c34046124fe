"""Programs that set a default dtype: observers compute in their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from trueloop.measure.probe import probe
from trueloop.observers.input_scale import _spreads


@pytest.fixture(params=[torch.bfloat16, torch.float16, torch.float64], autouse=True)
def default_dtype(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(before)


def test_the_spread_of_columns() -> None:
    rows = torch.arange(400.0, dtype=torch.float32).reshape(100, 4) * torch.tensor([1, 1, 1, 50])
    narrow, wide = _spreads(rows.to(torch.bfloat16))
    assert narrow is not None
    assert wide is not None
    assert wide[0] == 3


def test_a_probe_of_many_rows() -> None:
    rows = torch.randn(6001, 3, dtype=torch.float32, generator=torch.Generator().manual_seed(0))
    found = probe(rows, (rows[:, 0] > 0).double(), True)
    assert found is not None
    assert found.score > 0.9
