"""The engine on a real CUDA device: the same bits twice and after a resume, no wait for the device between two log
lines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from trueloop.checkpoint.store import Memory
from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.cadence import Cadence
from trueloop.engine.loop import Loop
from trueloop.engine.train import train
from trueloop.hook import Ending, Hook, Row
from trueloop.recipe.recipe import DataRequest, Recipe

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]


class Kept(Hook):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.notes: list[str] = []

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.losses.append(row.values["loss"])

    def noted(self, sentence: str) -> None:
        self.notes.append(sentence)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))


def samples(count: int = 512) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 4, (count,), generator=draws)
    centres = torch.randn(4, 32, generator=draws)
    return centres[labels] + torch.randn(count, 32, generator=draws), labels


def read(request: DataRequest) -> Splits:
    inputs, labels = samples()
    return Splits(Tensors(inputs[:448], labels[:448]), Tensors(inputs[448:], labels[448:]))


RECIPE = Recipe(
    name="small", model=network, data=read, epochs=6, batch=32, lr=1e-2, clip=1.0, ema=0.9, schedule="cosine", log_every=1,  # noqa: E501
    device="cuda", deterministic=True, statistics_every=0,
)  # fmt: skip


def ran(recipe: Recipe, store: Memory | None = None) -> tuple[Loop, Kept, Ending]:
    kept = Kept()
    loop = Loop.of(replace(recipe, hooks=(kept,)), store=store)
    return loop, kept, train(loop)


def weights(loop: Loop) -> list[Tensor]:
    return [value.cpu() for value in loop.parts.model.state_dict().values()]


def equal(first: Loop, second: Loop) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


def test_two_runs_give_the_same_bits() -> None:
    first, kept, _ = ran(RECIPE)
    second, again, _ = ran(RECIPE)
    assert kept.losses == again.losses
    assert equal(first, second)


def test_a_loader_gives_the_bits_of_resident_data() -> None:
    resident, kept, _ = ran(replace(RECIPE, where="resident"))
    loaded, again, _ = ran(replace(RECIPE, where="loader", workers=2))
    assert kept.losses == again.losses
    assert equal(resident, loaded)


def test_a_resumed_run_ends_with_the_same_bits() -> None:
    whole, kept, _ = ran(RECIPE)
    store = Memory()
    loop = Loop.of(RECIPE, store=store)
    loop = Loop(replace(loop.parts, total_steps=41))  # the schedule keeps its own length
    train(loop)
    later = Loop.of(replace(RECIPE, hooks=(last := Kept(),)), store=store)
    assert later.recovery.go_back()
    assert later.state.step == 41
    train(later)
    assert equal(whole, later)
    assert last.losses == kept.losses[41:]


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_host_does_not_wait_between_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch itself raises on every wait while its debug mode says so: in all steps of an epoch but those that log."""
    loop = Loop.of(
        replace(RECIPE, batch=8, log_every=20, epochs=None, steps=40, evaluate_every=1000, deterministic=False)
    )
    log, watched = loop.log.log, 0

    def logged(*facts: Any) -> None:
        torch.cuda.set_sync_debug_mode("default")
        log(*facts)
        torch.cuda.set_sync_debug_mode("error")

    def windows(state: Any) -> Iterator[Any]:
        nonlocal watched
        for window in original(state):
            # The first steps may wait: libraries are loaded and workspaces made.
            torch.cuda.set_sync_debug_mode("default" if state.step < 3 or (state.step + 1) % 20 == 0 else "error")
            watched += torch.cuda.get_sync_debug_mode() == 2
            yield window

    original = loop.parts.batches.windows
    monkeypatch.setattr(loop.log, "log", logged)
    monkeypatch.setattr(loop.parts.batches, "windows", windows)
    monkeypatch.setattr(Cadence, "time_to_save", lambda *_: False)
    monkeypatch.setattr(Cadence, "time_to_evaluate", lambda *_: False)
    try:
        ending = train(loop)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert ending.reason == "finished"
    assert watched > 30


def poisoned(request: DataRequest) -> Splits:
    inputs, labels = samples()
    inputs[100] = float("nan")
    return Splits(Tensors(inputs[:448], labels[:448]), Tensors(inputs[448:], labels[448:]))


def test_a_batch_that_is_no_number_is_held_back_by_the_device() -> None:
    loop, kept, ending = ran(replace(RECIPE, data=poisoned, on_nonfinite="skip", log_every=7))
    assert loop.parts.guard.on_device
    assert ending.reason == "finished"
    assert loop.state.skipped == 6  # once an epoch
    assert all(torch.isfinite(value).all() for value in weights(loop))
    assert all("data" in note for note in kept.notes)


def test_the_run_stops_and_names_the_cause() -> None:
    loop, _, ending = ran(replace(RECIPE, data=poisoned, log_every=5))
    assert ending.reason == "nonfinite"
    assert "The data of the batch" in ending.message
    assert all(torch.isfinite(value).all() for value in weights(loop))


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
def test_learns_in_every_precision(precision: str) -> None:
    _, kept, ending = ran(replace(RECIPE, precision=cast(Any, precision), deterministic=False))
    assert ending.reason == "finished"
    assert kept.losses[-1] < kept.losses[0] / 3


def test_steps_that_the_scaler_refuses_do_not_advance_the_schedule() -> None:
    kept = Kept()
    loop = Loop.of(replace(RECIPE, precision="fp16", deterministic=False, hooks=(kept,)))
    assert loop.parts.precision.scaler is not None
    loop.parts.precision.scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
    train(loop)
    assert 0 < loop.state.clock < loop.state.step
    assert loop.state.skipped == 0
    learned = [
        loss for loss in kept.losses if math.isfinite(loss)
    ]  # a line of which every step was refused has no loss
    assert learned[-1] < learned[0] / 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:TensorFloat32")  # torch's own, while it compiles
def test_compiled_learns_what_eager_learns() -> None:
    _, eager, _ = ran(replace(RECIPE, deterministic=False, model=without_dropout))
    loop, compiled, _ = ran(replace(RECIPE, deterministic=False, model=without_dropout, compile="default"))
    assert compiled.losses == pytest.approx(eager.losses, rel=1e-2)
    assert not any("_orig_mod" in name for name in loop.parts.model.state_dict())


def without_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


class Noisy(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Draws from torch's global generator, in whichever process it is asked."""

    def __init__(self) -> None:
        self.inputs, self.labels = samples(448)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        return self.inputs[number] + 0.1 * torch.randn(32), self.labels[number]


def noisy(request: DataRequest) -> Splits:
    return Splits(Dataset(Noisy()))


def test_the_number_of_workers_changes_nothing() -> None:
    _, none, _ = ran(replace(RECIPE, data=noisy, epochs=2))
    _, three, _ = ran(replace(RECIPE, data=noisy, epochs=2, workers=3))
    assert none.losses == three.losses
