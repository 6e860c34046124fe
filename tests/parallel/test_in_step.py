"""Processes that need one another for each micro-batch compute equally many of them, and each sample counts once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from tests.engine.small import SMALL, Read
from trueloop.data.source import size_of
from trueloop.engine.batches import IDLE, Batches, EvaluationBatches, Window
from trueloop.engine.state import State
from trueloop.parallel.peers import Alone, Peers
from trueloop.recipe.recipe import DataRequest, Recipe

HOST = torch.device("cpu")


def seat(rank: int, world: int) -> Peers:
    """One of several, whom nobody asks anything."""
    peers = Alone()
    peers.rank, peers.world = rank, world
    return peers


def windows(recipe: Recipe, rank: int, world: int, *, in_step: bool = True) -> Iterator[Window]:
    """Of one epoch."""
    state = State()
    batches = Batches(recipe.data(DataRequest()), recipe, HOST, seat(rank, world), in_step=in_step)
    for window in batches.windows(state):
        yield window
        state.advance(window.ends_epoch, window.steps)
        if window.ends_epoch:
            return


@pytest.mark.parametrize("samples", [17, 18, 23, 32, 33])
@pytest.mark.parametrize("accumulate", [1, 2, 3])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_all_have_equally_many_micro_batches_and_each_sample_counts_once(
    samples: int, accumulate: int, world: int
) -> None:
    recipe = replace(SMALL, data=Read(samples=samples), batch=8, accumulate=accumulate)
    seats = [list(windows(recipe, rank, world)) for rank in range(world)]
    for step in zip(*seats, strict=True):
        assert len({len(window.micros) for window in step}) == 1
        counted = [micro for window in step for micro in window.micros[: len(window.micros) - window.idle]]
        assert sum(size_of(micro.inputs) for micro in counted) == step[0].samples
        idle = [micro for window in step for micro in window.micros[len(window.micros) - window.idle :]]
        assert all(1 <= size_of(micro.inputs) <= IDLE for micro in idle)
    assert sum(window.samples for window in seats[0]) == samples


def test_what_only_keeps_step_is_of_the_same_batch() -> None:
    """So that what is no number there is no number in the step anyway."""
    recipe = replace(SMALL, data=Read(samples=17), batch=8)
    first, second = (list(windows(recipe, rank, 2))[-1] for rank in range(2))
    assert (first.idle, second.idle) == (0, 1)
    assert torch.equal(first.micros[0].inputs, second.micros[0].inputs)


def test_who_needs_nobody_has_no_idle_micro_batches() -> None:
    recipe = replace(SMALL, data=Read(samples=17), batch=8)
    last = list(windows(recipe, 1, 2, in_step=False))[-1]
    assert (last.idle, len(last.micros)) == (0, 0)


@pytest.mark.parametrize("samples", [1, 2, 5, 20, 33])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_evaluations_are_in_step_too(samples: int, world: int) -> None:
    recipe = replace(SMALL, data=Read(valid=samples), batch=4)
    splits = recipe.data(DataRequest())
    assert splits.valid is not None
    seats = [EvaluationBatches(splits.valid, splits, recipe, HOST, seat(rank, world)) for rank in range(world)]
    assert sum(size_of(batch.inputs) for each in seats for batch in each) == samples
    assert len({len([*each, *each.idle()]) for each in seats}) == 1
