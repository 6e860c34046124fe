"""Which samples come when: a pure function, complete and even, for any sizes."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.small import SMALL, Of, begin
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.batches import Batches, EvaluationBatches
from trueloop.engine.sample_order import epoch_order, micro_batch_sizes, mix_seed, steps_per_epoch
from trueloop.engine.state import State
from trueloop.errors import BadRecipe
from trueloop.parallel.peers import Alone, Peers

HOST = torch.device("cpu")


def one_of(rank: int, world: int) -> Peers:
    """A process of several, for what needs no message."""
    peers = Alone()
    peers.rank, peers.world = rank, world
    return peers


def numbered(samples: int) -> Splits:
    return Splits(
        Tensors(torch.arange(samples), torch.arange(samples)), Tensors(torch.arange(samples), torch.arange(samples))
    )


sizes = st.tuples(st.integers(1, 300), st.integers(1, 40), st.integers(1, 8), st.integers(1, 5))


@given(sizes, st.booleans())
def test_every_sample_comes_once_an_epoch_whatever_the_split(sizes: tuple[int, int, int, int], drop_last: bool) -> None:
    samples, batch, accumulate, world = sizes
    recipe = replace(SMALL, batch=batch, accumulate=min(accumulate, batch), drop_last=drop_last)
    steps = steps_per_epoch(samples, batch, drop_last)
    if not steps:
        return
    seen: list[int] = []
    for rank in range(world):
        state = State()
        batches = Batches(numbered(samples), recipe, HOST, one_of(rank, world))
        assert batches.steps_per_epoch == steps
        for number, window in enumerate(islice(batches.windows(state), steps)):
            mine = [int(value) for micro in window.micros for value in micro.targets]
            assert window.samples == min(batch, samples - number * batch)
            assert abs(len(mine) - window.samples / world) < 1, "each process has an even share"
            assert len(window.micros) <= recipe.accumulate
            lengths = [len(micro.targets) for micro in window.micros]
            assert not lengths or max(lengths) - min(lengths) <= 1, "micro-batches are even"
            assert all(lengths), "none is empty"
            assert window.ends_epoch == (number == steps - 1)
            seen += mine
            state.advance(window.ends_epoch)
        assert state.epoch == 1
    assert sorted(seen) == sorted(set(seen)), "no sample comes twice"
    assert len(seen) == (samples // batch * batch if drop_last else samples)


@given(sizes)
def test_a_step_holds_the_same_samples_over_any_number_of_processes(sizes: tuple[int, int, int, int]) -> None:
    samples, batch, _, world = sizes
    recipe = replace(SMALL, batch=batch, accumulate=1)
    alone = [sorted(key.numbers.tolist()) for key in Batches(numbered(samples), recipe, HOST, Alone()).keys(2, 0)]
    shares = [
        [key.numbers.tolist() for key in Batches(numbered(samples), recipe, HOST, one_of(r, world)).keys(2, 0)]
        for r in range(world)
    ]
    assert [sorted(chain(*parts)) for parts in zip(*shares, strict=True)] == alone


@given(sizes)
def test_evaluation_sees_every_sample_once_in_order(sizes: tuple[int, int, int, int]) -> None:
    samples, batch, accumulate, world = sizes
    recipe = replace(SMALL, batch=batch, accumulate=min(accumulate, batch))
    splits = numbered(samples)
    seen = [
        int(value)
        for rank in range(world)
        for micro in EvaluationBatches(splits.train, splits, recipe, HOST, one_of(rank, world))
        for value in micro.targets
    ]
    assert seen == list(range(samples))


@given(st.integers(0, 200), st.integers(1, 4), st.integers(1, 8), st.integers(1, 64))
def test_pieces_are_even_complete_and_no_larger_than_a_full_steps(
    samples: int, world: int, accumulate: int, batch: int
) -> None:
    accumulate = min(accumulate, batch)
    samples = min(samples, -(-batch // world))
    pieces = micro_batch_sizes(samples, world, accumulate, batch)
    assert sum(pieces) == samples
    assert not pieces or max(pieces) - min(pieces) <= 1
    assert all(0 < piece <= -(-batch // (world * accumulate)) for piece in pieces)


@given(st.integers(1, 500), st.integers(0, 5), st.integers(0, 5))
def test_the_order_is_a_pure_function_of_seed_and_epoch(samples: int, seed: int, epoch: int) -> None:
    torch.manual_seed(epoch * 7 + seed)
    first = epoch_order(samples, seed, epoch)
    torch.rand(3)
    assert torch.equal(first, epoch_order(samples, seed, epoch))
    assert sorted(first.tolist()) == list(range(samples))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [tuple(epoch_order(50, seed, epoch).tolist()) for seed in range(4) for epoch in range(4)]
    assert len(set(orders)) == 16


def test_mixed_seeds_do_not_collide_where_sums_would() -> None:
    assert len({mix_seed(*numbers) for numbers in [(1, 2), (2, 1), (0, 3), (12,), (1, 2, 0), (1, 20), (12, 0)]}) == 7
    assert 0 <= mix_seed(0) < 2**63


def test_balanced_draws_give_every_class_its_share() -> None:
    labels = torch.cat([torch.full((980,), 5), torch.full((15,), 7), torch.full((5,), 1)])
    order = epoch_order(1000, 0, 0, labels)
    assert len(order) == 1000
    frequencies = [(labels[order] == label).double().mean().item() for label in (1, 5, 7)]
    assert frequencies == pytest.approx([1 / 3] * 3, abs=0.05)
    rare = torch.bincount(order[labels[order] == 1] - 995, minlength=5)
    assert rare.min() > 40, "within a class, every sample is as likely as the others"
    assert not torch.equal(order, epoch_order(1000, 0, 1, labels))


def test_a_balanced_run_learns_the_rare_class_from_balanced_batches() -> None:
    labels = torch.cat([torch.zeros(95, dtype=torch.long), torch.ones(5, dtype=torch.long)])
    loop, _, _ = begin(replace(SMALL, data=Of(Splits(Tensors(torch.randn(100, 6), labels))), balanced=True, batch=20))
    drawn = torch.cat(
        [micro.targets for window in islice(loop.parts.batches.windows(State()), 1) for micro in window.micros]
    )
    assert 4 <= int(drawn.sum()) <= 16


def test_an_epoch_without_a_whole_batch_does_not_hang() -> None:
    loop, _, _ = begin(replace(SMALL, batch=64, drop_last=True, epochs=None, steps=3))
    with pytest.raises(BadRecipe, match="no batches"):
        next(loop.windows())


def test_drop_last_leaves_the_small_batch_out() -> None:
    loop, _, _ = begin(replace(SMALL, drop_last=True))
    assert (loop.parts.batches.steps_per_epoch, loop.parts.total_steps) == (3, 9)
    assert [window.samples for window in islice(loop.parts.batches.windows(State()), 3)] == [16, 16, 16]
