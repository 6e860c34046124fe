"""What a recipe's own step and hooks see of a run: names, counters, values of their own, and an end on request."""

import torch
from torch import nn

import trueloop
from tests.engine.small import ran
from trueloop.checkpoint.store import Memory
from trueloop.engine.loop import Loop
from trueloop.hook import Hook, Row
from trueloop.recipe.recipe import DataRequest, Recipe


def _read(request: DataRequest) -> trueloop.Splits:
    rows = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    part = trueloop.Tensors(rows, (rows.sum(1) > 0).long())
    return trueloop.Splits(part, part)


def _recipe(**changes: object) -> Recipe:
    return Recipe(name="tiny", model=lambda: nn.Linear(4, 2), data=_read, epochs=3, batch=8, trackers=(), **changes)  # type: ignore[arg-type]


def test_names_and_counters() -> None:
    loop = Loop.of(_recipe())
    assert list(loop.models) == ["model"]
    assert list(loop.optimizers) == ["optimizer"]
    assert (loop.step, loop.epoch, loop.device.type) == (0, 0, "cpu")
    loop.train()
    assert (loop.step, loop.epoch) == (12, 3)


def test_values_of_ones_own_travel_with_the_checkpoint() -> None:
    store = Memory()
    loop = Loop.of(_recipe(), store=store)
    loop.memory.update(centre=torch.arange(3.0), seen=[1, 2])
    loop.save()
    loop.parts.saver.finish()
    again = Loop.of(_recipe(), store=store)
    held = again.memory
    assert again.recovery.go_back()
    assert held is again.memory
    assert held["seen"] == [1, 2]
    assert torch.equal(held["centre"], torch.arange(3.0))


class _EndsEarly(Hook):
    loop: Loop | None = None

    def logged(self, row: Row) -> None:
        if row.kind == "valid" and self.loop is not None:
            self.loop.end_training("Good enough.")


def test_a_run_ends_on_request_with_a_checkpoint() -> None:
    hook, store = _EndsEarly(), Memory()
    loop = Loop.of(_recipe(), store=store, hooks=hook)
    hook.loop = loop
    loop.train()
    assert loop.step == 4
    assert loop.state.ended_by == "Good enough."
    assert store.names()


class _Misspelled(Hook):
    def steped(self, loop: Loop) -> None:
        raise AssertionError("never called")

    def draw(self) -> None:
        """Of the user's own."""


def test_a_misspelled_method_of_a_hook_gets_a_note() -> None:
    run = ran(_recipe(hooks=(_Misspelled(),)))
    assert run.kept.notes == [
        "The hook _Misspelled has a method `steped`, which trueloop never calls. Did you mean `stepped`?"
    ]
