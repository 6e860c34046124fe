"""Batches that are made one after another: windows, epochs, states in checkpoints, exact resumes, and what is said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from tests.engine.small import SMALL, Of, blobs, ran, same_bits, with_dropout
from trueloop import Splits, Stream, Tensors
from trueloop.checkpoint.store import Memory
from trueloop.claims.prove import prove
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import Batch
from trueloop.engine.preflight import check_before_training
from trueloop.errors import BadData, BadRecipe, NotByIndex
from trueloop.hook import Hook, Row
from trueloop.recipe.recipe import DataRequest, Recipe


class Walk(Stream):
    """Each batch depends on the ones before it, on random numbers of three libraries, and on the model."""

    def __init__(self) -> None:
        self.place = torch.zeros(6)
        self.given = 0

    def next(self, loop: Any) -> Any:
        weight = next(loop.parts.model.parameters())
        self.place = 0.9 * self.place + torch.randn(6) + random.random() + float(np.random.rand())
        self.given += 1
        inputs = self.place + torch.randn(8, 6) + weight.detach().mean()
        return inputs, (inputs.sum(1) > 0).long()

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place, "given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place, self.given = state["place"], state["given"]


class Loader(Stream):
    """An epoch of five."""

    steps_per_epoch = 5

    def next(self, loop: Any) -> Any:
        return {"inputs": torch.randn(4, 6), "labels": torch.zeros(4).long()}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state == {}


def given(train: Any, valid: Any = None) -> Of:
    return Of(Splits(train, valid))


def walking(request: DataRequest) -> Splits:
    return Splits(train=Walk(), valid=Tensors(*blobs(20, seed=1)))


WALK = replace(SMALL, model=with_dropout, data=walking, epochs=None, steps=9, evaluate_every=3, save_every=2)


class StopAt(Hook):
    """Ends the process's run as a kill would, after the checkpoint of that step is written."""

    def __init__(self, step: int) -> None:
        self.step = step

    def logged(self, row: Row) -> None:
        if row.kind == "train" and row.step == self.step:
            raise KeyboardInterrupt


def killed_and_resumed(recipe: Recipe, *, at: int) -> tuple[Any, Any]:
    undisturbed = ran(recipe)
    store = Memory()
    with pytest.raises(KeyboardInterrupt):
        ran(replace(recipe, hooks=(StopAt(at),)), store)
    torch.manual_seed(12345)  # what a new process has is not what it had
    random.seed(1)
    np.random.seed(2)
    return undisturbed, ran(recipe, store, go_on=True)


def test_a_stream_trains_and_its_state_is_resumed_exactly() -> None:
    whole, resumed = killed_and_resumed(WALK, at=6)
    assert whole.ending.step == resumed.ending.step == 9
    assert same_bits(whole.weights, resumed.weights)
    assert whole.losses[-3:] == resumed.losses[-3:]
    assert resumed.loop.parts.batches.stream.given == 9


def test_data_may_return_the_stream_itself() -> None:
    assert ran(replace(WALK, data=lambda _: Walk())).ending.step == 9


def test_the_epochs_of_a_stream_with_a_length() -> None:
    loop = ran(
        replace(SMALL, data=lambda _: Loader(), epochs=2, loss=lambda out, _: out["inputs"].sum(1), model=Echo)
    ).loop
    assert (loop.state.step, loop.state.epoch, loop.state.batch) == (10, 2, 0)


class Echo(torch.nn.Module):
    """Takes a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"inputs": batch["inputs"] * self.scale}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epochs": 2, "steps": None}, r"set steps, as in Recipe\(steps=10_000, epochs=None\)"),
        ({"data": lambda _: Splits(Walk(), valid=Walk())}, "has no end"),
        ({"data": lambda _: iter([1])}, "read only once"),
        ({"data": lambda _: Splits(train=Wrong("triple"))}, r"gave a tuple of 3.*\(\(tokens"),
        ({"data": lambda _: Splits(train=Wrong("state"))}, r"Wrong.state_dict\(\)\['x'\] is a builtins.object"),
        ({"program": "compiled_step"}, "compiled_step needs samples by index"),
    ],
    ids=["no length", "validation", "generator", "triple", "state", "program"],
)  # fmt: skip
def test_mistakes_are_one_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises((BadData, BadRecipe), match=said):
        ran(replace(WALK, **change))


class Wrong(Stream):
    def __init__(self, how: str) -> None:
        self.how = how

    def next(self, loop: Any) -> Any:
        return torch.zeros(2, 6), torch.zeros(2), torch.zeros(2)

    def state_dict(self) -> dict[str, Any]:
        return {"x": object()} if self.how == "state" else {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def test_what_needs_samples_by_index_says_so() -> None:
    with pytest.raises(NotByIndex, match="one after another"):
        len(Walk())
    with pytest.raises(NotByIndex, match="one after another"):
        Walk().fetch(torch.arange(2))
    assert bool(Walk())


def test_a_batch_that_is_not_finite_is_named_without_making_it_again() -> None:
    class Bad(Walk):
        def next(self, loop: Any) -> Any:
            inputs, labels = super().next(loop)
            return (inputs * float("nan") if self.given == 4 else inputs), labels

    ended = ran(replace(WALK, data=lambda _: Bad()))
    assert ended.ending.reason == "nonfinite"
    assert "at step 4. The layer is unknown: the batch came from a stream" in ended.ending.message


def test_preflight_checks_the_validation_data_of_a_stream() -> None:
    loop = ran(replace(WALK, steps=1)).loop
    check_before_training(loop.parts)
    wide = Splits(train=Walk(), valid=Tensors(torch.zeros(4, 9), torch.zeros(4).long()))
    with pytest.raises(BadRecipe, match="The first batch of the validation data has inputs"):
        check_before_training(replace(loop.parts, splits=wide))


class Rollouts(Walk):
    """Whatever a step of one's own can use."""

    def next(self, loop: Any) -> Any:
        inputs, labels = super().next(loop)
        return {"points": inputs, "labels": labels, "about": "anything"}


def own_step(loop: Any, batch: Any) -> None:
    assert batch["about"] == "anything"
    loop.update(torch.nn.functional.cross_entropy(loop.model(batch["points"]), batch["labels"]))


def test_a_step_of_ones_own_gets_what_the_stream_gave() -> None:
    recipe = replace(WALK, data=lambda _: Splits(Rollouts(), Tensors(*blobs(20, seed=1))), step=own_step)
    whole, resumed = killed_and_resumed(recipe, at=6)
    assert same_bits(whole.weights, resumed.weights)
    assert whole.ending.step == 9


# -- loaders --


class Rows(IterableDataset[Any]):
    """Shuffles as it reads, from Python's random numbers."""

    def __iter__(self) -> Iterator[Any]:
        inputs, labels = blobs(30)
        order = list(range(30))
        random.shuffle(order)
        for number in order:
            yield inputs[number] + 0.1 * torch.randn(6), int(labels[number])


class StatefulRows(IterableDataset[Any]):
    """With a place of its own, which no seed restores."""

    def __init__(self) -> None:
        self.at = 0
        self.total = 0

    def __iter__(self) -> Iterator[Any]:
        inputs, labels = blobs(30)
        while self.at < 30:
            number = self.at
            self.at += 1
            self.total += 1
            yield inputs[number] + self.total / 100, int(labels[number])
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at, "total": self.total}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at, self.total = state["at"], state["total"]


def shuffled(workers: int = 0, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*blobs(30)), batch_size=8, shuffle=True, num_workers=workers, **options)


LOADERS: dict[str, Any] = {
    "shuffled": shuffled,
    "own generator": lambda: shuffled(generator=torch.Generator().manual_seed(3)),
    "workers": lambda: DataLoader(Rows(), batch_size=8, num_workers=1, persistent_workers=True),
    "iterable": Rows,
    "stateful iterable": StatefulRows,
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_is_resumed_exactly(kind: str) -> None:
    def data(request: DataRequest) -> Any:
        return LOADERS[kind](), DataLoader(TensorDataset(*blobs(20, seed=1)), batch_size=7)

    known = kind in ("shuffled", "own generator")
    length = {"epochs": 3} if known else {"epochs": None, "steps": 11}
    recipe = replace(SMALL, model=with_dropout, data=data, save_every=1, evaluate_every=4, batch=8, **length)
    whole, resumed = killed_and_resumed(recipe, at=7)
    assert whole.ending.step == resumed.ending.step >= 11
    assert same_bits(whole.weights, resumed.weights)
    assert whole.losses[-4:] == resumed.losses[-4:]
    epochs = whole.losses[:4], whole.losses[4:8]
    assert epochs[0] != epochs[1]


def test_a_loader_leaves_the_training_s_random_states_alone() -> None:
    def order(request: DataRequest) -> Splits:
        return given(DataLoader(TensorDataset(*blobs(32)), batch_size=16))(request)

    def plain(request: DataRequest) -> Splits:
        inputs, labels = blobs(32)
        return Splits(Once([(inputs[:16], labels[:16]), (inputs[16:], labels[16:])]))

    one, other = (ran(replace(SMALL, model=with_dropout, data=each, epochs=2)) for each in (order, plain))
    assert same_bits(one.weights, other.weights)


class Once(Stream):
    """Draws nothing."""

    steps_per_epoch = 2

    def __init__(self, batches: list[Any]) -> None:
        self.batches, self.at = batches, 0

    def next(self, loop: Any) -> Any:
        self.at += 1
        return self.batches[(self.at - 1) % len(self.batches)]

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def test_uneven_batches_of_a_validation_loader_are_weighted_by_their_samples() -> None:
    valid = blobs(20, seed=1)
    loaders = [Tensors(*valid), DataLoader(TensorDataset(*valid), batch_size=7), DataLoader(TensorDataset(*valid), 20)]
    values = [ran(replace(SMALL, data=given(Tensors(*blobs(50)), each))).kept.rows[-1].values for each in loaders]
    for each in values[1:]:
        assert each["accuracy"] == values[0]["accuracy"]
        assert each["loss"] == pytest.approx(values[0]["loss"], rel=1e-6)


def test_the_loader_s_batch_stands() -> None:
    loop = ran(replace(SMALL, data=given(shuffled()), batch=64, epochs=1)).loop
    assert loop.parts.recipe.batch == 8
    with pytest.raises(
        BadRecipe, match=r"batch=16, and its loader gives batches of 8.*leave batch out, or set batch=8"
    ):
        ran(replace(SMALL, data=given(shuffled()), batch=16))


def test_what_is_said_about_a_resume() -> None:
    said = ran(replace(SMALL, data=given(shuffled()), batch=8)).loop.parts.batches.note
    assert said.startswith("data: batches from a DataLoader without state_dict: a resume reads the epoch again")
    assert "not for data that arrive over a network" in said
    stateful = ran(replace(SMALL, data=given(StatefulRows()), epochs=None, steps=2)).loop.parts.batches.note
    assert stateful == "data: batches from a StatefulRows; its state_dict is in every checkpoint"


def test_a_loader_that_is_empty_or_shorter_than_before() -> None:
    class Nothing(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter(())

    with pytest.raises(BadData, match="gave no batch"):
        ran(replace(SMALL, data=given(Nothing()), epochs=None, steps=2))
    recipe, store = replace(SMALL, data=given(shuffled()), batch=8, epochs=1, save_every=1), Memory()
    ran(recipe, store)
    short = given(DataLoader(TensorDataset(*blobs(10)), batch_size=8))
    with pytest.raises(BadData, match=r"has 2 batches now, and gave 4 before"):
        ran(replace(recipe, data=short, epochs=6), store, go_on=True)


def test_a_loader_over_a_map_style_dataset_answers_for_its_samples() -> None:
    loader = ran(replace(SMALL, data=given(shuffled()), batch=8, epochs=1)).loop.parts.splits.train
    assert len(loader) == 30
    assert torch.equal(loader.fetch(torch.tensor([7])).inputs[0], blobs(30)[0][7])
    with pytest.raises(NotByIndex, match="Rows gives batches one after another"):
        len(ran(replace(SMALL, data=given(Rows()), epochs=None, steps=1)).loop.parts.splits.train)


def test_accumulation_splits_a_stream_s_batch() -> None:
    whole, split = (ran(replace(SMALL, data=given(shuffled()), batch=8, accumulate=count)) for count in (1, 3))
    assert [len(micro.targets) for micro in split.loop.parts.batches.micros(Batch(*blobs(8)))] == [3, 3, 2]
    for name, value in whole.weights.items():
        assert torch.allclose(value, split.weights[name], atol=1e-5)


def test_claims_say_what_cannot_be_tested(tmp_path: Any) -> None:
    from trueloop.claims.large_batch_equals_accumulated import LargeBatchEqualsAccumulated

    subject = RecipeSubject(WALK, DataRequest(), ("walk",), tmp_path)
    (proof,) = prove(subject, "walk", [LargeBatchEqualsAccumulated()]).proofs
    assert "none can be made twice" in proof.measured
