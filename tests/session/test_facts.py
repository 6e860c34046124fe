"""facts.json: what a run is made of and fed with; told before its first step, and without changing any of its
numbers."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import blobs, recipe
from tests.engine.small import Kept
from trueloop.data.dataset import Dataset
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.tensors import Tensors
from trueloop.data.tokens import Tokens
from trueloop.engine.loop import Loop
from trueloop.engine.parts import Parts
from trueloop.measure.randomness import take_states
from trueloop.recipe.recipe import DataRequest
from trueloop.session.facts import gather_facts, write_facts
from trueloop.session.samples import read_samples
from trueloop.session.train import train

BOUNDS: dict[str, Any] = {"in_memory": 100, "elsewhere": 10, "nbytes": 1 << 20, "seconds": 5.0}


def told(**changes: Any) -> dict[str, Any]:
    return gather_facts(Loop.of(recipe(**changes)).parts)


def test_what_is_told_of_a_run(tmp_path: Path) -> None:
    done = train(recipe(), name="mine", runs=tmp_path, hooks=())
    read = json.loads((done.folder / "facts.json").read_text(encoding="utf-8"))
    assert read["model"] == {"class": "Sequential", "parameters": 163, "trained": 163, "frozen": 0}
    assert read["optimizer"]["class"] == "AdamW"
    assert read["optimizer"]["held"] == 163
    assert read["data"]["train"] == 96
    assert (read["data"]["valid"], read["data"]["test"], read["data"]["bytes"]) == (48, None, 96 * 6 * 4 + 96 * 8)
    assert read["leakage"] == {"train_valid": {"repeated": 0, "compared": 48, "against": 96}}
    assert read["classes"]["train"] == {"0": 32, "1": 32, "2": 32}
    assert read["baseline"]["value"] == pytest.approx(1 / 3)
    assert read["validation"] == {"modules": 5, "in_train_mode": 0, "graphs": False, "weights": "model"}
    assert read["missing"] == {}
    inputs = Loop.of(recipe()).parts.batches.batch_at(0, 0)
    assert inputs is not None
    assert read["inputs"]["mean"] == pytest.approx(inputs.inputs.double().mean().item())


def frozen() -> nn.Module:
    made = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    made[0].requires_grad_(False)
    return made


def test_frozen_parameters_are_counted_apart() -> None:
    assert told(model=frozen)["model"] == {"class": "Sequential", "parameters": 43, "trained": 15, "frozen": 28}
    assert told(model=frozen)["optimizer"]["held"] == 15


def leaking(request: DataRequest) -> Splits:
    splits = blobs(request)
    assert isinstance(splits.train, Tensors)
    assert isinstance(splits.valid, Tensors)
    inputs = splits.valid.inputs.clone()
    inputs[:5] = splits.train.inputs[20:25]
    return replace(splits, valid=Tensors(inputs, splits.valid.targets))


def test_samples_in_two_splits_are_counted() -> None:
    assert told(data=leaking)["leakage"]["train_valid"] == {"repeated": 5, "compared": 48, "against": 96}


def test_samples_that_are_read_as_needed_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueloop.session.facts.SECONDS", 60.0)  # however slow the machine

    def lazily(request: DataRequest) -> Splits:
        splits = leaking(request)
        parts = [splits.train, splits.valid]
        lists = [
            [tuple(row) for row in zip(part.inputs, part.targets, strict=True)]
            for part in parts
            if isinstance(part, Tensors)
        ]
        return replace(splits, train=Dataset(lists[0]), valid=Dataset(lists[1]))

    made = told(data=lazily)
    assert made["data"]["where"] == "loader"
    assert made["leakage"]["train_valid"] == {"repeated": 5, "compared": 48, "against": 96}
    assert made["baseline"]["value"] == pytest.approx(1 / 3)


class Counted(Source):
    """Remembers what was asked of it."""

    def __init__(self, length: int, pause: float = 0.0, size: int | None = None) -> None:
        self.length, self.pause, self.size = length, pause, size
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.length

    def fetch(self, numbers: Tensor) -> Batch:
        self.asked += numbers.tolist()
        time.sleep(self.pause)
        return Batch(numbers.float()[:, None], numbers)

    def nbytes(self) -> int | None:
        return self.size


@pytest.mark.parametrize(
    ("length", "size", "count"), [(7, None, 7), (1000, None, 10), (7, 28, 7), (1000, 4000, 100), (1, None, 1)]
)
def test_so_many_are_read_and_they_are_spread(length: int, size: int | None, count: int) -> None:
    source = Counted(length, size=size)
    made = read_samples(source, 0, **BOUNDS)
    asked = made.targets.tolist()
    assert made.count == count == len(set(asked))
    if count < length:
        assert max(after - before for before, after in pairwise(sorted(asked))) <= -(-length // count)
        early = sorted(asked[: count // 2])
        assert max(after - before for before, after in pairwise(early)) <= 4 * length / count


def test_what_is_read_as_needed_is_read_elsewhere_so_that_the_training_meets_it_untouched() -> None:
    source = Counted(40)
    assert read_samples(source, 0, **BOUNDS).count == 10
    assert source.asked == []


def test_it_stops_when_its_time_or_its_room_is_up() -> None:
    slow = Counted(1000, pause=0.02)
    assert read_samples(slow, 0, **{**BOUNDS, "elsewhere": 1000, "seconds": 0.1}).count < 20
    assert read_samples(Counted(1000), 0, **{**BOUNDS, "elsewhere": 1000, "nbytes": 12 * 30}).count == 30


def test_other_data_have_another_digest() -> None:
    first, again = (told()["samples"]["train"]["digest"] for _ in range(2))
    assert first == again
    assert told(data=leaking)["samples"]["valid"]["digest"] != told()["samples"]["valid"]["digest"]


# -- nothing is changed, nothing is broken --


def drawing(request: DataRequest) -> Splits:
    """Samples that draw from every generator there is."""

    class Noisy:
        def __len__(self) -> int:
            return 40

        def __getitem__(self, number: int) -> tuple[Tensor, int]:
            return torch.randn(6) + random.random() + float(np.random.rand()), number % 3

    return Splits(train=Dataset(Noisy()), valid=Dataset(Noisy()), facts=Facts(inputs=(6,), classes=("a", "b", "c")))


def test_no_random_number_of_the_training_is_drawn(tmp_path: Path) -> None:
    loop = Loop.of(recipe(data=drawing))
    before = take_states()
    write_facts(tmp_path, loop.parts)
    after = take_states()
    assert before["python"] == after["python"]
    assert torch.equal(before["torch"], after["torch"])
    assert torch.equal(before["numpy"][1], after["numpy"][1])
    assert before["numpy"][2:] == after["numpy"][2:]


@pytest.mark.parametrize("data", [blobs, drawing])
def test_the_weights_are_the_same_bits_with_and_without(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = train(recipe(data=data), name="with", runs=tmp_path, hooks=()).model.state_dict()
    monkeypatch.setattr("trueloop.session.train.write_facts", lambda *_: "")
    plain = train(recipe(data=data), name="without", runs=tmp_path, hooks=()).model.state_dict()
    assert not (tmp_path / "without" / "facts.json").exists()
    assert all(torch.equal(made[name], plain[name]) for name in plain)


def test_data_that_cannot_be_read_again_leave_the_run_alone(tmp_path: Path) -> None:
    class Grudging(Source):
        """Gives no more than a batch's worth of numbers one after another: a sample alone makes it raise."""

        def __len__(self) -> int:
            return 64

        def fetch(self, numbers: Tensor) -> Batch:
            if len(numbers) < 2:
                raise OSError("the disk is tired")
            return Batch(torch.zeros(len(numbers), 6), numbers % 3)

    def grudging(request: DataRequest) -> Splits:
        return Splits(train=Grudging(), valid=Grudging(), facts=Facts(inputs=(6,), classes=("a", "b", "c")))

    done = train(recipe(data=grudging), name="mine", runs=tmp_path, hooks=())
    read = json.loads((done.folder / "facts.json").read_text(encoding="utf-8"))
    assert done.ending.reason == "finished"
    assert read["missing"]["samples of train"] == "Unreadable: OSError: the disk is tired"
    assert read["data"]["train"] == 64
    assert not read["baseline"]


def test_a_full_disk_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "facts.json.writing").mkdir()
    assert "could not be written" in write_facts(tmp_path, Loop.of(recipe()).parts)


def test_the_time_it_takes_is_not_the_trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, hour = time.perf_counter, 3600.0
    passed = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + passed[0])

    def slowly(folder: Path, parts: Parts) -> str:
        passed[0] += hour
        return write_facts(folder, parts)

    monkeypatch.setattr("trueloop.session.train.write_facts", slowly)
    kept = Kept()
    train(recipe(log_every=1), runs=tmp_path, hooks=[kept])
    first = next(row for row in kept.rows if row.kind == "train")
    # Had the hour counted, the first step would have taken at least that.
    assert first.values["samples_per_second"] > 2 * recipe().batch / hour


# -- other tasks --


def test_language(tmp_path: Path) -> None:
    text = tmp_path / "text.bin"
    text.write_bytes(b"abba" * 200)

    def read(request: DataRequest) -> Splits:
        train, valid = Tokens(text, 8, last=600, stride=1), Tokens(text, 8, first=600)
        return Splits(train=train, valid=valid, facts=Facts(inputs=(8,), vocabulary=128))

    def net() -> nn.Module:
        return nn.Sequential(nn.Embedding(128, 8), nn.Linear(8, 128))

    made = told(data=read, model=net, task="language")
    assert made["inputs"]["kind"] == "tokens"
    assert (made["inputs"]["min"], made["inputs"]["max"]) == (97.0, 98.0)
    assert made["classes"] is None
    assert made["baseline"]["metric"] == "loss"
    assert (
        0.6 < made["baseline"]["value"] < 1.1
    )  # two letters, equally often: ln 2, and a little for the 126 that never come
    assert (
        made["leakage"]["train_valid"]["repeated"] == made["leakage"]["train_valid"]["compared"]
    )  # four letters, over and over


def test_quantities_and_a_loss_of_ones_own() -> None:
    def read(request: DataRequest) -> Splits:
        draw = torch.Generator().manual_seed(0)
        inputs = torch.randn(60, 6, generator=draw)
        return Splits(train=Tensors(inputs[:40], inputs[:40, 0]), valid=Tensors(inputs[40:], inputs[40:, 0]))

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))

    made = told(data=read, model=net, task="regression")
    splits = read(DataRequest())
    assert isinstance(splits.train, Tensors)
    assert isinstance(splits.valid, Tensors)
    expected = (splits.valid.targets - splits.train.targets.mean()).square().mean()
    assert made["baseline"]["value"] == pytest.approx(expected.item(), rel=1e-5)
    assert made["classes"] is None
    own = told(data=read, model=net, task="regression", loss=lambda output, targets: (output - targets).abs())
    assert own["loss"]["own"] is True
    assert "no constant answer" in own["missing"]["baseline"]


def test_without_validation_data_nothing_is_told_of_them() -> None:
    made = told(data=lambda request: replace(blobs(request), valid=None))
    assert made["data"]["valid"] is None
    assert made["validation"] is None
    assert made["baseline"] is None
    assert made["leakage"] == {}
