"""Orders that are made ahead are the orders that would have been made."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from trueloop.engine.programs.cuda_graphs import DeviceOrders
from trueloop.engine.sample_order import epoch_order

CPU = torch.device("cpu")


class Maker:
    """Makes orders, and remembers which ones and by which thread."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.threads: list[int] = []

    def __call__(self, epoch: int) -> Tensor:
        self.made.append(epoch)
        self.threads.append(threading.get_ident())
        return epoch_order(100, 7, epoch)


def test_what_is_prepared_is_made_once_by_another_thread_and_is_the_same() -> None:
    maker = Maker()
    orders = DeviceOrders(maker, CPU)
    assert torch.equal(orders.of(0), epoch_order(100, 7, 0))
    for _ in range(3):
        orders.prepare(1)
    assert torch.equal(orders.of(1), epoch_order(100, 7, 1))
    orders.prepare(1)  # it is there already
    assert maker.made == [0, 1]
    assert maker.threads[0] == threading.get_ident() != maker.threads[1]


def test_a_run_that_goes_back_gets_the_order_of_before() -> None:
    maker = Maker()
    orders = DeviceOrders(maker, CPU)
    for epoch in (0, 1, 2, 0):
        assert torch.equal(orders.of(epoch), epoch_order(100, 7, epoch))
    assert maker.made == [0, 1, 2, 0]


def test_only_one_epoch_before_this_one_is_kept() -> None:
    maker = Maker()
    orders = DeviceOrders(maker, CPU)
    for epoch in (0, 1, 0, 1):
        orders.of(epoch)
    assert maker.made == [0, 1]
    for epoch in (2, 1, 0):
        orders.of(epoch)
    assert maker.made == [0, 1, 2, 0]


def test_what_goes_wrong_while_it_is_made_is_raised_where_it_is_wanted() -> None:
    def fails(epoch: int) -> Tensor:
        raise ValueError(f"no order for {epoch}")

    orders = DeviceOrders(fails, CPU)
    orders.prepare(4)
    with pytest.raises(ValueError, match="no order for 4"):
        orders.of(4)


def test_no_random_number_of_the_training_is_drawn() -> None:
    before = torch.get_rng_state()
    orders = DeviceOrders(Maker(), CPU)
    orders.prepare(1)
    orders.of(1)
    assert torch.equal(before, torch.get_rng_state())
