"""Another batch size in the middle of an epoch: no sample twice, and the run keeps its epochs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from trueloop.checkpoint.store import Memory
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.batch_change import with_length_in_steps
from trueloop.engine.loop import Loop
from trueloop.recipe.recipe import Recipe

SAMPLES = 48


class Seen(nn.Module):
    """Remembers which samples it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.numbers: list[int] = []

    def forward(self, inputs: Any) -> Any:
        if self.training:
            self.numbers += inputs[:, 0].long().tolist()
        return self.layer(inputs * 0)


def recipe(**settings: Any) -> Recipe:
    def data(_: Any) -> Splits:
        return Splits(Tensors(torch.arange(float(SAMPLES))[:, None], torch.zeros(SAMPLES, 1)))

    known = {
        "epochs": 3,
        "batch": 8,
        "trackers": (),
        "device": "cpu",
        "task": "regression",
        "save_every": 1,
        "keep": 99,
    }
    return Recipe("seen", model=Seen, data=data, **{**known, **settings})


def trained(wanted: Recipe, store: Memory) -> tuple[Loop, list[int]]:
    loop = Loop.of(wanted, store=store)
    assert isinstance(loop.parts.model, Seen)
    loop.recovery.go_back()
    loop.parts.model.numbers.clear()
    loop.train()
    return loop, loop.parts.model.numbers


@pytest.mark.parametrize(
    ("steps", "batch", "left_out"), [(2, 4, 0), (2, 16, 0), (3, 16, 24), (1, 12, 40), (6, 16, 0), (5, 5, 0)]
)
def test_no_sample_is_seen_twice_in_an_epoch_and_all_epochs_are_trained(steps: int, batch: int, left_out: int) -> None:
    store = Memory()
    _, first = trained(recipe(epochs=None, steps=steps), store)
    about = store.manifest(store.names()[-1])
    changed = with_length_in_steps(recipe(batch=batch), about, SAMPLES)
    loop, second = trained(changed, store)
    assert (loop.state.epoch, loop.state.batch) == (3, 0)
    assert loop.log.epoch() == 3.0
    seen = [*first, *second]
    assert len(seen) == 3 * SAMPLES - left_out
    begun = SAMPLES - left_out
    for epoch in (seen[:begun], seen[begun : begun + SAMPLES], seen[begun + SAMPLES :]):
        assert len(set(epoch)) == len(epoch), "a sample twice"
    # A later resume finds the same length.
    about = store.manifest(store.names()[-1])
    assert with_length_in_steps(recipe(batch=batch), about, SAMPLES).steps in (loop.state.step, None)
    assert with_length_in_steps(replace(recipe(batch=8), epochs=3), {**about, "recipe": {"batch": 8}}, 0).epochs == 3
