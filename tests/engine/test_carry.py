"""A state that goes from batch to batch: as in a plain loop, apart in evaluations, exact in a resume."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import SMALL, Of, ran, same_bits
from tests.engine.test_streams import killed_and_resumed
from trueloop import Facts, Splits, Tensors
from trueloop.data.tracks import Tracks
from trueloop.engine.assemble import assemble
from trueloop.engine.build_model import build_model
from trueloop.engine.carry import carry_of
from trueloop.engine.preflight import check_before_training
from trueloop.errors import BadData, BadRecipe, NotByIndex
from trueloop.measure.randomness import seed_all

TOKENS = torch.randint(0, 7, (500,), generator=torch.Generator().manual_seed(0)).cumsum(0) % 7


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.score = nn.Embedding(7, 6), nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 7)

    def forward(self, tokens: Tensor, state: Any = None) -> Any:
        output, state = self.inner(self.embed(tokens), state)
        return self.score(output), state


TRAIN, VALID = Tracks(TOKENS[:300], batch=4, length=9), Tracks(TOKENS[300:], batch=3, length=5)
SPLITS = Splits(TRAIN, VALID, facts=Facts(vocabulary=7))
RECIPE = replace(
    SMALL, model=Recurrent, data=Of(SPLITS), task="language", carry=True, order="sequential", batch=4, epochs=3,
    optimizer="sgd", lr=0.5, save_every=1,
)  # fmt: skip


def test_tracks_continue_from_batch_to_batch() -> None:
    assert (len(TRAIN), TRAIN.steps) == (32, 8)
    first, second = (TRAIN.fetch(torch.arange(4) + 4 * step) for step in range(2))
    assert torch.equal(first.inputs[1], TOKENS[75:84])
    assert torch.equal(first.targets[1], TOKENS[76:85])
    assert torch.equal(second.inputs[1], TOKENS[84:93])
    signal = Tracks(torch.arange(20.0), batch=2, length=5, targets=torch.arange(20))
    assert len(signal) == 4
    assert signal.fetch(torch.tensor([3])).targets.tolist() == [[15, 16, 17, 18, 19]]
    moved = TRAIN.resident(torch.device("meta"))
    assert len(moved) == len(TRAIN)


def by_hand(epochs: int) -> tuple[nn.Module, list[float]]:
    seed_all(RECIPE.seed)
    model = Recurrent()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(epochs):
        state = None
        for step in range(TRAIN.steps):
            inputs, targets = TRAIN.fetch(torch.arange(4) + 4 * step)
            output, state = model(inputs, state)
            state = tuple(each.detach() for each in state)
            loss = nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def test_it_is_the_plain_loop_and_evaluations_have_a_state_of_their_own() -> None:
    model, losses = by_hand(3)
    over = ran(replace(RECIPE, evaluate_every=3))
    assert over.losses == pytest.approx(losses, rel=1e-5)
    total, state = 0.0, None
    with torch.no_grad():
        for step in range(VALID.steps):
            inputs, targets = VALID.fetch(torch.arange(3) + 3 * step)
            output, state = model(inputs, state)
            total += float(nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten()))
    assert over.kept.values("loss", "valid")[-1] == pytest.approx(total / VALID.steps, rel=1e-4)
    without = ran(replace(RECIPE, data=Of(replace(SPLITS, valid=None))))
    assert same_bits(over.weights, without.weights)


def test_a_resume_in_the_middle_of_an_epoch_is_exact() -> None:
    whole, resumed = killed_and_resumed(replace(RECIPE, ema=0.9, evaluate_every=4), at=13)
    assert whole.losses[-5:] == resumed.losses[-5:]
    assert same_bits(whole.weights, resumed.weights)


def test_the_checks_before_the_training_leave_no_state() -> None:
    parts = assemble(RECIPE)
    check_before_training(parts)
    carry = carry_of(parts.model)
    assert carry is not None
    assert carry.state is None
    with pytest.raises(NotByIndex, match="continues the one before it"):
        parts.batches.again(0, 0)


def test_outside_a_run_each_call_begins_without_a_state() -> None:
    model = build_model(RECIPE, SPLITS.facts)
    inputs = TRAIN.fetch(torch.arange(4)).inputs
    assert torch.equal(model(inputs), model(inputs))
    assert len(model(inputs[:2])) == 2


def test_a_skipped_batch_does_not_spoil_those_after_it() -> None:
    class Once(Recurrent):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, tokens: Tensor, state: Any = None) -> Any:
            output, state = super().forward(tokens, state)
            self.calls += self.training
            bad = float("nan") if self.training and self.calls == 3 else 1.0
            return output * bad, tuple(each * bad for each in state)

    over = ran(replace(RECIPE, model=Once, on_nonfinite="skip", epochs=1, data=Of(replace(SPLITS, valid=None))))
    assert over.loop.state.skipped == 1
    assert over.ending.reason == "finished"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"order": "shuffled"}, 'set order="sequential"'),
        ({"accumulate": 2}, "set accumulate=1"),
        ({"compile": "default"}, "set program=eager and compile=off"),
        ({"parallel": "fsdp"}, "set parallel=ddp or none"),
        ({"batch": 8}, "The training data are 4 tracks, and batch=8: set batch=4"),
        ({"data": Of(Splits(Tensors(TOKENS[:30, None], TOKENS[:30, None])))}, "are not a multiple of 4"),
        ({"model": lambda: nn.Embedding(7, 7)}, r"write `def forward\(self, inputs, state=None\)`"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRecipe, match=said):
        assemble(replace(RECIPE, **change))


def test_a_model_that_returns_no_state() -> None:
    class Forgetful(Recurrent):
        def forward(self, tokens: Tensor, state: Any = None) -> Any:
            return super().forward(tokens, state)[0]

    with pytest.raises(BadRecipe, match=r"returned a Tensor: write `return output, state`"):
        ran(replace(RECIPE, model=Forgetful))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tracks(TOKENS[:10], batch=4, length=9), "10 moments in 4 tracks do not fill one batch of length 9"),
        (lambda: Tracks(torch.zeros(9), batch=1, length=2), "need targets"),
        (lambda: Tracks(TOKENS, 2, 2, targets=TOKENS[1:]), "500 moments and 499 targets"),
        (lambda: Tracks(TOKENS, 0, 2), "both are at least 1"),
    ],
)
def test_tracks_that_cannot_be(make: Any, said: str) -> None:
    with pytest.raises(BadData, match=said):
        make()
