"""Steps played as real CUDA graphs: the numbers of steps one by one, the same bits again and after a resume, refusals
with their reason."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trueloop.checkpoint.store import Memory
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.loop import Loop
from trueloop.engine.programs.graph_recorder import CudaGraphRecorder
from trueloop.engine.train import train
from trueloop.errors import BadRecipe
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
        self.rows: list[Row] = []

    def logged(self, row: Row) -> None:
        self.rows.append(row)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(32, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4)
    )


def samples(count: int = 600) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 4, (count,), generator=draws)
    return torch.randn(4, 32, generator=draws)[labels] + torch.randn(count, 32, generator=draws), labels


def read(request: DataRequest) -> Splits:
    inputs, labels = samples()
    return Splits(Tensors(inputs[:500], labels[:500]), Tensors(inputs[500:], labels[500:]))


RECIPE = Recipe(
    name="small", model=network, data=read, epochs=6, batch=16, lr=1e-2, weight_decay=0.1, clip=1.0, schedule="cosine", log_every=20,  # noqa: E501
    device="cuda", statistics_every=0, program="cuda_graphs", steps_per_replay=8, trackers=(),
)  # fmt: skip
"""32 steps an epoch, the last of 4 samples: 192 steps."""


def ran(recipe: Recipe, store: Memory | None = None) -> tuple[Loop, Kept, Ending]:
    kept = Kept()
    loop = Loop.of(replace(recipe, hooks=(kept,)), store=store)
    return loop, kept, train(loop)


def furthest(first: nn.Module, second: nn.Module) -> float:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return float(max((a.double() - b.double()).abs().max().item() for a, b in pairs))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"optimizer": "momentum", "lr": 0.05},
        {"ema": 0.95},
        {"accumulate": 2},
        {"precision": "bf16"},
        {"balanced": True, "drop_last": True},
    ],
    ids=["adamw", "momentum", "ema", "micro-batches", "bf16", "balanced"],
)
def test_played_steps_give_the_numbers_of_steps_one_by_one(change: dict[str, Any]) -> None:
    recipe = replace(RECIPE, **change)
    plain, plain_kept, _ = ran(replace(recipe, program="eager"))
    loop, kept, ending = ran(recipe)
    assert ending.reason == "finished"
    # The same draws of dropout, the same order: only the rounding of the rate differs, which a hundred steps make
    # larger.
    assert furthest(plain.parts.model, loop.parts.model) < (1e-3 if recipe.precision == "fp32" else 5e-2)
    for mine, other in zip(kept.rows, plain_kept.rows, strict=True):
        assert (mine.kind, mine.step) == (other.kind, other.step)
        assert mine.values["loss"] == pytest.approx(other.values["loss"], rel=2e-2, abs=1e-3)


def test_compiled_and_played_learns_as_well() -> None:
    _, plain_kept, _ = ran(replace(RECIPE, program="eager"))
    _, kept, ending = ran(replace(RECIPE, compile="default"))
    assert ending.reason == "finished"
    best, plain = (
        max(row.values["accuracy"] for row in each.rows if row.kind == "valid") for each in (kept, plain_kept)
    )
    assert best >= plain - 0.05


@pytest.mark.parametrize("change", [{"compile": "off"}, {"compile": "default"}], ids=["plain", "compiled"])
def test_twice_the_same_and_after_a_resume_the_same_bits(change: dict[str, Any]) -> None:
    recipe = replace(RECIPE, **change, deterministic=True, save_every=20, keep=20)
    store = Memory()
    first, _, _ = ran(recipe, store)
    second, _, _ = ran(recipe)
    assert furthest(first.parts.model, second.parts.model) == 0.0
    names = store.names()
    for name in names[len(names) // 2 :]:
        store.remove(name)
    resumed = Loop.of(recipe, store=store)
    assert resumed.recovery.go_back()
    assert 0 < resumed.state.step < 192
    train(resumed)
    assert furthest(first.parts.model, resumed.parts.model) == 0.0


def test_a_batch_that_is_no_number_reaches_no_weight() -> None:
    def poisoned(request: DataRequest) -> Splits:
        inputs, labels = samples()
        inputs[137] = math.nan
        return Splits(Tensors(inputs[:500], labels[:500]), Tensors(inputs[500:], labels[500:]))

    changes: tuple[dict[str, Any], ...] = ({}, {"compile": "default"})
    for change in changes:
        loop, _, ending = ran(replace(RECIPE, data=poisoned, on_nonfinite="skip", max_nonfinite=20, **change))
        assert ending.reason == "finished"
        assert loop.state.skipped == 6
        assert all(torch.isfinite(value).all() for value in loop.parts.model.state_dict().values())


class AsksTheHost(nn.Module):
    """A branch on a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.inner(inputs)
        return answer * 2 if answer.abs().max().item() > 100 else answer


def test_a_model_that_asks_the_host_is_refused_with_the_reason_and_eager_goes_on() -> None:
    loop = Loop.of(replace(RECIPE, model=AsksTheHost))
    with pytest.raises(
        BadRecipe, match=r"cannot be recorded as a CUDA graph: .*captur.* Nothing was trained: set program=eager"
    ):
        train(loop)
    assert loop.state.step == 0
    _, _, ending = ran(replace(RECIPE, model=AsksTheHost, program="eager", epochs=1))
    assert ending.reason == "finished"


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_host_waits_for_the_device_only_where_metrics_are_read() -> None:
    loop = Loop.of(replace(RECIPE, log_every=1000, evaluate_every=1000, save_every=1000, epochs=3))
    graphs = loop.program
    played = graphs.take

    def watched(window: Any) -> tuple[Tensor, bool, bool]:
        torch.cuda.set_sync_debug_mode("error")
        try:
            return played(window)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    graphs.take = watched  # type: ignore[method-assign]
    assert train(loop).reason == "finished"


def _add_one(numbers: Tensor) -> None:
    numbers.add_(1)


def test_garbage_of_an_earlier_run_does_not_invalidate_a_recording() -> None:
    """Destroying a graph is forbidden while another is recorded, and the collector may run at any allocation."""
    recorder = CudaGraphRecorder(torch.device("cuda"))
    numbers = torch.ones(4, device="cuda")
    recorder.warm_up(lambda: _add_one(numbers))

    def leave_garbage() -> None:
        earlier = CudaGraphRecorder(torch.device("cuda"))
        cycle: list[Any] = [earlier.record(lambda: _add_one(numbers))]
        cycle.append(cycle)

    def work() -> None:
        for _ in range(50):
            numbers.add_(1)
            _ = [[] for _ in range(50)]  # allocations, each of which may start the collector

    thresholds = gc.get_threshold()
    gc.disable()
    leave_garbage()
    gc.set_threshold(1, 1, 1)
    gc.enable()
    try:
        replay = recorder.record(work)
    finally:
        gc.set_threshold(*thresholds)
    before = numbers.clone()
    replay()
    assert torch.equal(numbers, before + 50)
