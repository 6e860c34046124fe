"""The seam to other processes: its fake, and the real one over gloo."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.parallel.ranks import on_ranks
from trueloop.parallel.peers import Alone, Group, Peers, find_peers

HOST = torch.device("cpu")


def parameter(value: float | None, size: int = 3) -> nn.Parameter:
    made = nn.Parameter(torch.zeros(size))
    if value is not None:
        made.grad = torch.full((size,), value)
    return made


def test_alone_everything_is_itself() -> None:
    peers = find_peers(HOST)
    assert isinstance(peers, Alone)
    assert peers.first
    weight = parameter(2.0)
    assert (peers.sum(3), peers.any(True), peers.any(False), peers.gather("x")) == (3, True, False, ["x"])
    assert float(peers.add_up([torch.tensor(1.0)], [weight])) == 1.0
    assert float(peers.add_up([torch.tensor(1.0), torch.tensor(2.5)], [weight])) == 3.5
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0] * 3
    peers.share([weight])
    peers.wait()


def test_a_group_adds_numbers_tensors_and_opinions() -> None:
    def work(rank: int) -> Any:
        peers: Peers = find_peers(HOST)
        assert isinstance(peers, Group)
        whole = peers.sum(rank + 1)
        both = peers.sum(torch.tensor([1.5, 2.0]) * (rank + 1))
        return (
            int(whole),
            both.tolist(),
            peers.any(rank == 1),
            peers.any(False),
            peers.gather({"rank": rank}),
            peers.first,
        )

    assert on_ranks(work) == [
        (3, [4.5, 6.0], True, False, [{"rank": 0}, {"rank": 1}], True),
        (3, [4.5, 6.0], True, False, [{"rank": 0}, {"rank": 1}], False),
    ]


def test_gradients_become_their_sum_and_what_nobody_has_stays_missing() -> None:
    """The second is missing on one process, the third on both: zeros there would let momentum and weight decay move
    it."""

    def work(rank: int) -> Any:
        weights = [parameter(1.0 + rank), parameter(5.0 if rank else None), parameter(None), parameter(0.25).double()]
        weights[3] = nn.Parameter(weights[3].detach())
        weights[3].grad = torch.full((3,), 0.25 + rank, dtype=torch.float64)
        loss = find_peers(HOST).add_up([torch.tensor(1.0)] * rank, weights)
        return float(loss), [None if weight.grad is None else weight.grad.tolist() for weight in weights]

    expected = (1.0, [[3.0] * 3, [5.0] * 3, None, [1.5] * 3])
    assert on_ranks(work) == [expected, expected]


def test_what_the_first_has_becomes_everybodys() -> None:
    def work(rank: int) -> Any:
        weight = parameter(None)
        with torch.no_grad():
            weight.add_(rank + 1)
        turned = torch.arange(6.0).view(2, 3).t() * (rank + 1)
        counted = torch.tensor(rank + 7)
        find_peers(HOST).share([weight, turned, counted])
        return weight.tolist(), turned.tolist(), int(counted)

    first, second = on_ranks(work)
    assert first == second
    assert first[0] == [1.0] * 3
    assert first[2] == 7


@pytest.mark.parametrize("world", [3])
def test_more_than_two(world: int) -> None:
    assert on_ranks(lambda rank: int(find_peers(HOST).sum(10**rank)), world) == [111] * world
