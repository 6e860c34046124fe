"""What the model sees does not depend on workers, homes or resumes; what a dataset draws is its own."""

from __future__ import annotations

import multiprocessing
import random
from collections import namedtuple
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import CLASSES, SMALL, WIDTH, Of, Read, begin, blobs, ran, same_bits, with_dropout
from trueloop.data.dataset import Dataset
from trueloop.data.source import Batch, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.state import State
from trueloop.errors import BadData
from trueloop.recipe.recipe import Recipe


class Drawing:
    """Samples that are their number, and noise from each generator that people draw from."""

    def __init__(self, samples: int = 24) -> None:
        self.samples = samples
        self.targets = [number % CLASSES for number in range(samples)]

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        noise = torch.tensor([random.random(), float(np.random.rand()), float(torch.rand(()))])
        return torch.cat([torch.full((WIDTH - 3,), number / 24), noise]), number % CLASSES


def drawing(workers: int = 0, **options: Any) -> Recipe:
    given: dict[str, Any] = {"batch": 8, "epochs": 2, "workers": workers, "model": with_dropout, **options}
    return replace(SMALL, data=Of(Splits(Dataset(Drawing()))), **given)


def seen(recipe: Recipe, steps: int) -> list[Tensor]:
    loop, _, _ = begin(recipe)
    state = loop.state
    found = []
    for window in islice(loop.parts.batches.windows(state), steps):
        found.append(torch.cat([micro.inputs for micro in window.micros]))
        state.advance(window.ends_epoch)
    loop.parts.batches.close()
    return found


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_neither_batches_nor_losses(workers: int) -> None:
    here, there = seen(drawing(), 6), seen(drawing(workers), 6)
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))
    one, other = ran(drawing()), ran(drawing(workers))
    assert one.losses == other.losses
    assert same_bits(one.weights, other.weights)


def test_draws_differ_between_samples_and_between_epochs() -> None:
    rows = torch.cat(seen(drawing(), 6))[:, -3:]
    assert len({tuple(row.tolist()) for row in rows}) == 48, "24 samples in two epochs, each with noise of its own"
    assert all(len(set(column.tolist())) == 48 for column in rows.T), "from each of the three generators"


def test_a_dataset_that_draws_does_not_move_the_trainings_dropout() -> None:
    """The samples' noise is not in the inputs here: all that could differ is the dropout."""

    class Silent(Drawing):
        def __getitem__(self, number: int) -> tuple[Tensor, int]:
            inputs, label = super().__getitem__(number)
            return inputs * torch.tensor([1.0] * (WIDTH - 3) + [0.0] * 3), label

    class Calm(Drawing):
        def __getitem__(self, number: int) -> tuple[Tensor, int]:
            return torch.cat([torch.full((WIDTH - 3,), number / 24), torch.zeros(3)]), number % CLASSES

    silent, calm = (ran(replace(drawing(), data=Of(Splits(Dataset(kind()))))) for kind in (Silent, Calm))
    assert silent.losses == calm.losses


def test_accumulation_does_not_change_what_a_dataset_draws() -> None:
    whole, split = seen(drawing(), 6), seen(drawing(accumulate=4), 6)
    assert all(torch.equal(one, other) for one, other in zip(whole, split, strict=True))


def test_a_resume_in_the_middle_of_an_epoch_sees_what_comes_next() -> None:
    for workers in (0, 2):
        whole = seen(drawing(workers), 6)
        loop, _, _ = begin(drawing(workers))
        loop.state.epoch, loop.state.batch = 1, 1
        later = [
            micro.inputs for window in islice(loop.parts.batches.windows(loop.state), 1) for micro in window.micros
        ]
        loop.parts.batches.close()
        assert torch.equal(later[0], whole[4])


def test_resident_and_loaded_samples_are_the_same_run() -> None:
    assert ran(replace(SMALL, where="resident")).losses == ran(replace(SMALL, where="loader")).losses
    assert ran(replace(SMALL, where="loader", workers=2)).losses == ran(SMALL).losses


def test_a_dataset_and_tensors_are_the_same_run() -> None:
    assert ran(SMALL).losses == pytest.approx(ran(replace(SMALL, data=Read(as_dataset=True))).losses, abs=1e-6)


def test_a_batch_can_be_had_again() -> None:
    def noisy(inputs: Tensor, draws: torch.Generator) -> Tensor:
        return inputs + torch.randn(inputs.shape, generator=draws)

    splits = Splits(Dataset(Drawing()), augment=noisy)
    loop, _, _ = begin(replace(drawing(), data=Of(splits)))
    windows = list(islice(loop.parts.batches.windows(State()), 1))
    again = loop.parts.batches.batch_at(0, 0)
    assert again is not None
    assert torch.equal(again.inputs, windows[0].micros[0].inputs)


def test_an_augmentation_draws_anew_in_each_batch_and_epoch() -> None:
    drawn: list[float] = []

    def noisy(inputs: Tensor, draws: torch.Generator) -> Tensor:
        drawn.append(float(torch.rand(1, generator=draws)))
        return inputs

    ran(replace(SMALL, data=Read(more={"augment": noisy})))
    first = list(drawn)
    drawn.clear()
    ran(replace(SMALL, data=Read(more={"augment": noisy})))
    assert len(set(first)) == 12
    assert drawn == first


def test_uint8_is_made_ready_on_the_device() -> None:
    kinds: set[torch.dtype] = set()

    def ready(inputs: Tensor) -> Tensor:
        kinds.add(inputs.dtype)
        return inputs.float() / 255

    inputs, labels = blobs(32)
    splits = Splits(Tensors((inputs * 20 + 100).to(torch.uint8), labels), prepare=ready)
    over = ran(replace(SMALL, data=Of(splits)))
    assert kinds == {torch.uint8}
    assert over.ending.reason == "finished"


Pair = namedtuple("Pair", "left right")


class Mixed(Source):
    """Inputs in every container that people use."""

    def __init__(self, shape: str) -> None:
        self.shape = shape

    def __len__(self) -> int:
        return 10

    def fetch(self, numbers: Tensor) -> Batch:
        left, right = numbers.float()[:, None], numbers[:, None] * 10.0
        inputs: Any = {
            "dict": {"left": left, "right": right},
            "tuple": (left, right),
            "named": Pair(left, right),
            "list": [left, right],
        }
        return Batch(inputs[self.shape], numbers % 2)


class Adds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, inputs: Any) -> Tensor:
        left, right = inputs.values() if isinstance(inputs, dict) else inputs
        answer: Tensor = self.layer(torch.cat([left, right], 1) / 100)
        return answer


@pytest.mark.parametrize("shape", ["dict", "tuple", "named", "list"])
def test_inputs_may_be_containers_of_tensors(shape: str) -> None:
    recipe = replace(SMALL, model=Adds, data=Of(Splits(Mixed(shape))), batch=4)
    whole, split = ran(recipe), ran(replace(recipe, accumulate=3))
    assert whole.losses == pytest.approx(split.losses, abs=1e-5)
    loop, _, _ = begin(replace(recipe, accumulate=2))
    kind = {"dict": dict, "tuple": tuple, "named": Pair, "list": list}[shape]
    assert type(next(loop.parts.batches.windows(State())).micros[1].inputs) is kind


class Broken(Drawing):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        raise BadData(f"row {number} of the file is no number.")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_fault_of_the_data_keeps_its_sentence_whoever_reads_them(workers: int) -> None:
    with pytest.raises(BadData) as caught:
        ran(replace(drawing(workers), data=Of(Splits(Dataset(Broken())))))
    assert str(caught.value).startswith("row ")
    assert "\n" not in str(caught.value)


def test_no_worker_outlives_its_run_not_even_one_that_failed() -> None:
    """Whoever waits for a worker that nobody has told to go waits for ever."""

    def fails(inputs: Tensor, draws: torch.Generator) -> Tensor:
        raise ZeroDivisionError

    assert ran(drawing(2)).ending.reason == "finished"
    assert multiprocessing.active_children() == []
    with pytest.raises(ZeroDivisionError):
        ran(replace(drawing(2), data=Of(Splits(Dataset(Drawing()), augment=fails))))
    assert multiprocessing.active_children() == []


def test_waiting_for_data_is_counted_and_told() -> None:
    over = ran(SMALL)
    assert all(0 <= share <= 1 for share in over.kept.values("data_wait"))
    assert over.loop.parts.batches.waited == 0.0
