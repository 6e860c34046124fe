"""Hooks that get the loop: called at their moments, without a trace in the training unless they mean it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.engine.small import SMALL, ran, same_bits, with_dropout, with_norm
from trueloop.checkpoint.store import Memory
from trueloop.engine.loop import Loop
from trueloop.errors import BadRecipe
from trueloop.hook import Hook

DROPOUT = replace(SMALL, model=with_dropout)


class Moments(Hook):
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def begin(self, loop: Loop) -> None:
        self.seen.append(("begin", loop.step, loop.epoch))

    def stepped(self, loop: Loop) -> None:
        self.seen.append(("stepped", loop.step, loop.epoch))

    def evaluated(self, loop: Loop, values: Mapping[str, float]) -> None:
        assert {"loss", "accuracy"} <= set(values)
        self.seen.append(("evaluated", loop.step, loop.epoch))

    def epoch_ended(self, loop: Loop) -> None:
        self.seen.append(("epoch_ended", loop.step, loop.epoch))


class Draws(Hook):
    """Uses every generator, and leaves the model in eval mode."""

    def stepped(self, loop: Loop) -> None:
        random.random()
        np.random.rand(3)
        loop.model.eval()
        loop.model(torch.randn(4, 6))

    evaluated = begin = epoch_ended = lambda self, loop, *_: self.stepped(loop)  # type: ignore[assignment]


class Unfreeze(Hook):
    def __init__(self, at: int) -> None:
        self.at = at

    def begin(self, loop: Loop) -> None:
        loop.model.get_submodule("0").requires_grad_(False)

    def stepped(self, loop: Loop) -> None:
        if loop.step == self.at:
            loop.model.get_submodule("0").requires_grad_(True)


def test_each_moment_in_its_order() -> None:
    hook = Moments()
    ran(replace(SMALL, hooks=(hook,), epochs=2))  # 50 samples in batches of 16: 4 steps
    steps = [("stepped", 1, 0), ("stepped", 2, 0), ("stepped", 3, 0), ("stepped", 4, 1)]
    ends = [("evaluated", 4, 1), ("epoch_ended", 4, 1)]
    assert hook.seen[:7] == [("begin", 0, 0), *steps, *ends]
    assert hook.seen[-3:] == [("stepped", 8, 2), ("evaluated", 8, 2), ("epoch_ended", 8, 2)]


def test_what_a_hook_draws_changes_nothing() -> None:
    assert same_bits(ran(DROPOUT).weights, ran(replace(DROPOUT, hooks=(Draws(),))).weights)


def test_a_frozen_part_does_not_move_until_it_is_unfrozen_and_then_does() -> None:
    begun = ran(replace(SMALL, steps=5, epochs=None, hooks=(Unfreeze(99),))).weights
    never = ran(replace(SMALL, hooks=(Unfreeze(99),))).weights
    later = ran(replace(SMALL, hooks=(Unfreeze(6),))).weights
    assert torch.equal(begun["0.weight"], never["0.weight"])
    assert not torch.equal(never["0.weight"], later["0.weight"])


@pytest.mark.parametrize("stop", [3, 6, 7])
def test_what_is_unfrozen_and_a_hooks_own_state_come_back_exactly(stop: int) -> None:
    class Counts(Hook):
        def begin(self, loop: Loop) -> None:
            self.count = torch.zeros(1)

        def stepped(self, loop: Loop) -> None:
            self.count += 1
            if self.count == 8:
                loop.model.get_submodule("1").eval()  # a part

        def state_dict(self) -> dict[str, Any]:
            return {"count": self.count}

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            self.count = state["count"]

    whole = ran(replace(SMALL, model=with_norm, hooks=(Unfreeze(6), Counts())))
    store = Memory()
    hooks: tuple[Hook, ...] = (Unfreeze(6), Counts(), Ends(stop))
    ran(replace(SMALL, model=with_norm, hooks=hooks), store)
    rest = (Unfreeze(6), Counts())

    def continued(loop: Loop) -> None:
        loop.state.over, loop.state.ended_by = False, ""

    again = ran(replace(SMALL, model=with_norm, hooks=rest), store, go_on=True, before=continued)
    assert same_bits(whole.weights, again.weights)
    assert float(rest[1].count) == 12
    assert not again.loop.model.get_submodule("1").training


class Ends(Hook):
    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, loop: Loop) -> None:
        if loop.step == self.step:
            loop.end_training("Enough.")


def test_end_training_ends_with_a_checkpoint_at_that_step() -> None:
    done = ran(replace(SMALL, hooks=(Ends(3),)))
    assert done.loop.step == 3
    assert done.store.names() == ["step-00000003"]
    assert done.loop.state.ended_by == "Enough."


def test_unfreezing_what_the_optimizer_does_not_hold_is_refused_by_name() -> None:
    def model() -> torch.nn.Module:
        made = SMALL.model()
        made[0].requires_grad_(False)
        return made  # type: ignore[no-any-return]

    class Late(Hook):
        def epoch_ended(self, loop: Loop) -> None:
            loop.model.get_submodule("0").requires_grad_(True)

    with pytest.raises(BadRecipe, match=r"Late unfroze 0.weight, but the optimizer does not hold it"):
        ran(replace(SMALL, model=model, hooks=(Late(),)))
    groups = replace(SMALL, model=model, hooks=(Late(),), groups=lambda model: [{"params": model.parameters()}])
    assert not torch.equal(ran(groups).weights["0.weight"], ran(replace(groups, hooks=())).weights["0.weight"])


def test_a_state_that_cannot_be_saved_is_a_sentence() -> None:
    class Odd(Hook):
        def begin(self, loop: Loop) -> None: ...

        def state_dict(self) -> dict[str, Any]:
            return {"thing": object()}

    with pytest.raises(Exception, match="thing"):
        ran(replace(SMALL, hooks=(Odd(),)))


# -- attributes that no checkpoint holds --


class Counts(Hook):
    """Resumes with 0."""

    def __init__(self) -> None:
        self.times, self.limit = 0, 3
        self.seen: dict[int, list[int]] = {0: []}

    def epoch_ended(self, loop: Loop) -> None:
        self.times += 1
        self.seen[0].append(loop.step)


class Saves(Counts):
    def state_dict(self) -> Mapping[str, Any]:
        return {"times": self.times}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.times = state["times"]


class SetsUp(Hook):
    """`begin` runs again; `loop.memory` is saved; the rest is only read."""

    def __init__(self) -> None:
        self.every, self.names = 2, ["a"]

    def begin(self, loop: Loop) -> None:
        self.first = loop.step

    def stepped(self, loop: Loop) -> None:
        names = list(self.names)
        names.append("b")
        loop.memory["steps"] = loop.memory.get("steps", self.first) + self.every


@pytest.mark.parametrize("hook", [Saves(), SetsUp(), Unfreeze(2), Draws()], ids=lambda hook: type(hook).__name__)
def test_a_hook_that_loses_nothing_is_not_mentioned(hook: Hook) -> None:
    assert not [note for note in ran(replace(DROPOUT, hooks=(hook,), epochs=1)).kept.notes if "state_dict" in note]


def test_a_hook_that_loses_its_counters_is_named() -> None:
    (note,) = [note for note in ran(replace(DROPOUT, hooks=(Counts(),), epochs=1)).kept.notes if "state_dict" in note]
    assert note.startswith("The hook Counts changes self.seen, self.times and has no state_dict: a resumed run begins")
