"""The loop itself: readable, on time, without growth, the same after a resume."""

from __future__ import annotations

import ast
import gc
import inspect
import os
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import trueloop.engine.train
from tests.engine.small import (
    CLASSES,
    SMALL,
    WIDTH,
    Read,
    begin,
    plain,
    ran,
    same_bits,
    with_dropout,
    with_norm,
    with_parts,
)
from trueloop.checkpoint.contents import read_contents
from trueloop.checkpoint.store import Memory
from trueloop.engine.ema import Ema
from trueloop.engine.loop import Loop
from trueloop.engine.train import train
from trueloop.hook import Hook, Row

# -- one screen, three frames --


def test_the_loop_is_one_function_that_fits_on_a_screen() -> None:
    tree = ast.parse(Path(inspect.getfile(trueloop.engine.train)).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert [function.name for function in functions] == ["train"]
    assert (functions[0].end_lineno or 0) - functions[0].lineno + 1 <= 60


def test_a_models_forward_is_at_most_three_frames_below_train() -> None:
    between: list[list[str]] = []

    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, CLASSES)

        def forward(self, inputs: Tensor) -> Tensor:
            if self.training:
                frames = [frame for frame in inspect.stack()[1:] if "torch/nn/modules/module.py" not in frame.filename]
                names = [frame.function for frame in frames]
                between.append(names[: names.index("train")])
            answer: Tensor = self.layer(inputs)
            return answer

    ran(replace(SMALL, model=Looking, epochs=1, accumulate=2))
    assert between
    assert all(len(frames) + 1 <= 3 for frames in between), between[0]


# -- when things happen --


@pytest.mark.parametrize(("every", "total"), [(1, 5), (3, 10), (7, 10), (50, 10)])
def test_lines_come_at_their_interval_and_at_the_end(every: int, total: int) -> None:
    over = ran(replace(SMALL, log_every=every, epochs=None, steps=total))
    assert over.kept.steps("train") == sorted({*range(every, total + 1, every), total})


@pytest.mark.parametrize(("every", "total"), [(1, 5), (3, 10), (7, 10), (50, 10)])
def test_evaluations_come_at_their_interval_and_at_the_end(every: int, total: int) -> None:
    over = ran(replace(SMALL, evaluate_every=every, epochs=None, steps=total))
    assert over.kept.steps("valid") == sorted({*range(every, total + 1, every), total})


def test_without_an_interval_an_evaluation_comes_with_each_epochs_end() -> None:
    assert ran(SMALL).kept.steps("valid") == [4, 8, 12]
    assert ran(replace(SMALL, epochs=None, steps=9)).kept.steps("valid") == [4, 8, 9]


class Saved(Hook):
    def __init__(self) -> None:
        self.steps: list[int] = []

    def saved(self, step: int, path: str) -> None:
        self.steps.append(step)


def test_checkpoints_come_at_their_interval_with_the_best_and_at_the_end() -> None:
    saved = Saved()
    over = ran(replace(SMALL, save_every=5, metric="loss", lr=1e-9, hooks=(saved,)))
    bests = [row.step for row in over.kept.rows if row.kind == "valid" and row.best]
    assert saved.steps == sorted({5, 10, 12, *bests})


def test_an_early_stop_is_saved_too_whatever_the_interval() -> None:
    over = ran(replace(SMALL, save_every=1000, patience=1, lr=1e-12, epochs=9))
    assert over.loop.state.over
    assert over.store.names()[-1] == f"step-{over.loop.state.step:08d}"


def test_the_mean_of_all_lines_is_the_mean_of_all_steps() -> None:
    fine, coarse = ran(replace(SMALL, log_every=1)), ran(replace(SMALL, log_every=5))
    means = [sum(fine.losses[low:high]) / (high - low) for low, high in pairwise([0, 5, 10, 12])]
    assert coarse.losses == pytest.approx(means)


def test_samples_per_second_counts_samples_not_steps() -> None:
    over = ran(replace(SMALL, log_every=12))
    (row,) = [row for row in over.kept.rows if row.kind == "train"]
    assert row.values["samples_per_second"] > 0
    assert row.epoch == pytest.approx(3.0)


# -- the moving average --


def test_the_moving_average_is_one_written_by_hand() -> None:
    """SGD by hand beside it, weight by weight."""
    over = ran(replace(SMALL, ema=0.9, optimizer="sgd"))
    loop, _, _ = begin(replace(SMALL, ema=0.9, optimizer="sgd"))
    average = [parameter.detach().clone() for parameter in loop.parts.model.parameters()]
    for step, window in enumerate(loop.windows()):
        (micro,) = window.micros
        loop.parts.model.zero_grad()
        loss = nn.functional.cross_entropy(loop.parts.model(micro.inputs), micro.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        decay = min(0.9, (1 + step) / (10 + step))
        with torch.no_grad():
            for mean, parameter in zip(average, loop.parts.model.parameters(), strict=True):
                parameter.sub_(SMALL.lr * torch.as_tensor(parameter.grad))
                mean.copy_(decay * mean + (1 - decay) * parameter)
        loop.state.advance(window.ends_epoch)
    assert over.loop.parts.ema is not None
    for mine, expected in zip(over.loop.parts.ema.model.parameters(), average, strict=True):
        assert torch.allclose(mine, expected, atol=1e-6)


def test_what_is_evaluated_is_the_average() -> None:
    over = ran(replace(SMALL, ema=0.99, epochs=6))
    assert over.loop.parts.ema is not None
    assert over.loop.parts.splits.valid is not None
    last = over.kept.values(kind="valid")[-1]
    assert last == over.loop.validation.measure(over.loop.parts.ema.model, over.loop.parts.splits.valid)["loss"]
    assert last != over.loop.validation.measure(over.loop.parts.model, over.loop.parts.splits.valid)["loss"]


def test_the_average_copies_running_statistics_and_never_trains() -> None:
    model = with_norm()
    ema = Ema(model, 0.5)
    model(torch.randn(8, WIDTH))
    ema.follow(100)
    assert torch.equal(ema.model[1].running_mean, model[1].running_mean)  # type: ignore[index]
    assert not any(parameter.requires_grad for parameter in ema.model.parameters())
    assert not ema.model.training


def test_the_average_changes_nothing_in_the_training() -> None:
    recipe = replace(SMALL, model=with_dropout)
    assert same_bits(ran(recipe).weights, ran(replace(recipe, ema=0.9)).weights)


# -- coming back --

EVERYTHING = replace(
    SMALL, accumulate=2, ema=0.9, schedule="cosine", warmup=3, clip=0.5, epochs=4, precision="bf16",
    save_every=1, keep=100, log_every=3, evaluate_every=5,
)  # fmt: skip


def everything(**options: Any) -> Any:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, CLASSES))

    def noisy(inputs: Tensor, draws: torch.Generator) -> Tensor:
        return inputs + 0.1 * torch.randn(inputs.shape, generator=draws)

    return replace(EVERYTHING, model=model, data=Read(more={"augment": noisy}), **options)


@pytest.mark.parametrize("at", [1, 4, 7, 12, 15])
def test_a_resumed_run_ends_with_the_same_bits_and_the_same_lines(at: int) -> None:
    whole = ran(everything())
    store = Memory()
    cut, kept, _ = begin(everything(), store)
    cut = with_parts(cut, total_steps=16)
    stop_after(cut, at)
    assert train(cut).reason == "signal"
    resumed = ran(everything(), store, go_on=True)
    assert same_bits(whole.weights, resumed.weights)
    assert whole.loop.parts.ema is not None
    assert resumed.loop.parts.ema is not None
    assert same_bits(whole.loop.parts.ema.model.state_dict(), resumed.loop.parts.ema.model.state_dict())
    lines = [(row.kind, row.step, row.values["loss"]) for row in whole.kept.rows]
    assert [(row.kind, row.step, row.values["loss"]) for row in (*kept.rows, *resumed.kept.rows)] == lines


def stop_after(loop: Loop, steps: int) -> None:
    """A SIGTERM in the middle of a step."""

    def ask(*_: Any) -> None:
        if loop.state.step + 1 == steps:
            os.kill(os.getpid(), signal.SIGTERM)

    loop.parts.optimizer.register_step_post_hook(ask)


def test_a_signal_ends_the_step_saves_and_leaves() -> None:
    loop, _, store = begin(replace(SMALL, save_every=1000))
    stop_after(loop, 6)
    ending = train(loop)
    assert (ending.reason, ending.step, ending.signal) == ("signal", 6, signal.SIGTERM)
    assert store.names()[-1] == "step-00000006"
    assert read_contents(store, "step-00000006").about["step"] == 6


def test_a_signal_in_the_last_step_leaves_only_the_evaluation_to_a_resume() -> None:
    store = Memory()
    whole, (loop, _, _) = ran(SMALL), begin(SMALL, store)
    stop_after(loop, 12)
    assert train(loop).reason == "signal"
    resumed = ran(SMALL, store, go_on=True)
    assert resumed.ending.reason == "finished"
    assert resumed.losses == []
    assert same_bits(whole.weights, resumed.weights)
    assert [row.kind for row in resumed.kept.rows] == ["valid"]


def test_a_finished_run_that_is_resumed_takes_no_step() -> None:
    store = Memory()
    over = ran(SMALL, store)
    again = ran(SMALL, store, go_on=True)
    assert again.losses == []
    assert again.ending.reason == "finished"
    assert same_bits(over.weights, again.weights)


def test_two_runs_have_the_same_bits_and_another_seed_has_others() -> None:
    recipe = replace(SMALL, model=with_dropout)
    torch.manual_seed(1)
    one = ran(recipe)
    torch.manual_seed(2)
    two, other = ran(recipe), ran(replace(recipe, seed=1))
    assert one.losses == two.losses
    assert same_bits(one.weights, two.weights)
    assert one.losses != other.losses


# -- no growth --


class Alive(Hook):
    """Counts the tensors that are alive at each line."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            gc.collect()
            self.counts.append(sum(issubclass(type(thing), Tensor) for thing in gc.get_objects()))


def test_no_tensor_outlives_its_step() -> None:
    alive = Alive()
    recipe = replace(
        SMALL, model=with_norm, ema=0.9, clip=1.0, accumulate=2, hooks=(alive,), log_every=100, epochs=None, steps=400
    )
    ran(replace(recipe, evaluate_every=50, save_every=60))
    assert len(alive.counts) == 4
    assert max(alive.counts[2:]) <= max(alive.counts[:2]), f"tensors alive every 100 steps: {alive.counts}"


def test_no_gradient_is_left_for_the_next_step_or_behind_the_run() -> None:
    left: list[bool] = []

    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, CLASSES)

        def forward(self, inputs: Tensor) -> Tensor:
            if self.training:
                left.append(self.layer.weight.grad is not None)
            answer: Tensor = self.layer(inputs)
            return answer

    over = ran(replace(SMALL, model=Asks))
    assert left == [False] * 12
    assert all(parameter.grad is None for parameter in over.loop.parts.model.parameters())


def test_a_plain_model_learns() -> None:
    """After all that: it does what it is for."""
    over = ran(replace(SMALL, model=plain, data=Read(samples=400, valid=200), epochs=15, lr=0.02))
    assert over.kept.values("accuracy", "valid")[-1] > 0.9
    assert over.losses[-1] < over.losses[0] / 3
