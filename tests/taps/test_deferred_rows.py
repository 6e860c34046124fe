"""Rows whose numbers are read later: in order, as means, sums or the first of several."""

from __future__ import annotations

import torch

from trueloop.hook import Row
from trueloop.taps.deferred_rows import DeferredRows, Number, Part, Unread


def test_rows_come_in_their_order_once_their_numbers_have_arrived() -> None:
    written: list[Row] = []
    rows = DeferredRows(written.extend)
    numbers: list[Number] = [torch.tensor(2.0), torch.tensor(4.0)]
    rows.add(Row("train", 1, 0.0, {"loss": 1.0}))
    rows.add(Unread("train", 2, 0.5, 0.1, [Part("loss", numbers), Part("all", numbers, "sum")]))
    rows.flush()  # starts to read: the row before it waits too
    assert written == []
    rows.add(Unread("valid", 2, 0.5, 0.2, [Part("loss", [1.0, torch.tensor(4.0)], weights=[3, 1])]))
    rows.flush(wait=True)
    assert [row.step for row in written] == [1, 2, 2]
    assert dict(written[1].values) == {"loss": 3.0, "all": 6.0, "seconds": 0.1}
    assert written[2].values["loss"] == 1.75


def test_a_total_adds_up_parts_and_a_closure_counts_once() -> None:
    parts = [Part("a", [1.0, 9.0], "first"), Part("b", [torch.tensor(2.0)])]
    row = Unread("train", 1, 0.0, 0.0, [Part("loss", [], "total", members=parts), *parts])
    written: list[Row] = []
    rows = DeferredRows(written.extend)
    rows.add(row)
    rows.flush(wait=True)
    assert dict(written[0].values) == {"loss": 3.0, "a": 1.0, "b": 2.0, "seconds": 0.0}
