"""A run over two processes is the run of one: losses, metrics, schedule, faults, signals, checkpoints."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import (
    CLASSES,
    SMALL,
    WIDTH,
    Of,
    Ran,
    Read,
    begin,
    furthest,
    ran,
    reading,
    same_bits,
    with_dropout,
    with_norm,
)
from tests.parallel.ranks import on_ranks
from trueloop.checkpoint.store import Folder
from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.train import train

UNEVEN = replace(
    SMALL, data=Read(samples=49, valid=21), epochs=None, steps=20, evaluate_every=6, schedule="linear", clip=0.5
)
"""49 samples in batches of 16: each fourth step holds one sample, and one process none."""


def told(over: Ran) -> dict[str, Any]:
    """What can be sent through a pipe."""
    return {
        "losses": over.losses,
        "rates": over.kept.values("lr"),
        "valid": over.kept.values(kind="valid"),
        "measured": [row.values for row in over.kept.rows if row.kind == "valid"],
        "accuracy": [row.values.get("accuracy") for row in over.kept.rows if row.kind == "valid"],
        "notes": over.kept.notes,
        "weights": {name: value.numpy() for name, value in over.weights.items()},
        "ending": over.ending,
        "best": over.loop.state.best,
    }


def weights(said: dict[str, Any]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in said["weights"].items()}


@pytest.mark.parametrize(
    "options", [{}, {"accumulate": 4}, {"optimizer": "sgd", "lr": 0.3}, {"where": "loader"}], ids=str
)
def test_two_processes_are_one_run(options: dict[str, Any]) -> None:
    recipe = replace(UNEVEN, **options)
    alone = ran(recipe)
    first, second = on_ranks(lambda _: told(ran(recipe)))
    assert first["losses"] == pytest.approx(alone.losses, abs=1e-5)
    assert len(alone.losses) == 20
    assert first["valid"] == pytest.approx(alone.kept.values(kind="valid"), abs=1e-5)
    assert first["accuracy"] == alone.kept.values("accuracy", "valid")
    assert furthest(alone.weights, weights(first)) < 1e-4
    assert same_bits(weights(first), weights(second))


def test_a_schedule_counts_optimizer_steps_not_processes() -> None:
    first, _ = on_ranks(lambda _: told(ran(UNEVEN)))
    assert first["rates"] == pytest.approx([SMALL.lr * (1 - step / 20) for step in range(20)])


def test_only_the_first_process_speaks_and_writes() -> None:
    def work(rank: int) -> Any:
        over = ran(UNEVEN)
        return len(over.kept.rows), over.store.names()

    (rows, names), second = on_ranks(work)
    assert rows == 24
    assert names
    assert second == (0, [])


def test_uneven_tokens_over_two_processes_give_the_one_big_batch() -> None:
    recipe = replace(reading(1, 2, 4, 32, 9), batch=4, epochs=None, steps=20)
    alone = ran(recipe)
    first, _ = on_ranks(lambda _: told(ran(recipe)))
    assert first["losses"] == pytest.approx(alone.losses, abs=1e-5)


def test_a_dataset_is_not_asked_for_nothing() -> None:
    """The process without a sample must not collate an empty list."""
    data = Of(
        Splits(Dataset(list(zip(*[iter(torch.randn(17, WIDTH)), [n % CLASSES for n in range(17)]], strict=True))))
    )
    recipe = replace(SMALL, data=data, epochs=2)
    alone = ran(recipe)
    first, _ = on_ranks(lambda _: told(ran(recipe)))
    assert first["losses"] == pytest.approx(alone.losses, abs=1e-5)


def test_a_metric_is_weighted_by_how_many_samples_each_process_has() -> None:
    """Three samples over two processes: 2 and 1. A mean of means would weigh the last one double."""
    inputs = torch.zeros(3, WIDTH)
    targets = torch.tensor([0.0, 0.0, 6.0])
    data = Of(Splits(Tensors(inputs, targets), Tensors(inputs, targets)))
    recipe = replace(SMALL, data=data, model=Zero, task="regression", lr=1e-12, epochs=1)
    first, _ = on_ranks(lambda _: told(ran(recipe)))
    assert first["valid"] == [pytest.approx(12.0)], "not 18, the mean of 0 and 36"


class Zero(nn.Module):
    """Answers with next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs[:, 0] + self.weight


def test_more_processes_than_samples_to_evaluate() -> None:
    recipe = replace(SMALL, data=Read(samples=20, valid=1), epochs=1)
    alone = ran(recipe)
    first, _ = on_ranks(lambda _: told(ran(recipe)))
    assert first["valid"] == pytest.approx(alone.kept.values(kind="valid"), abs=1e-5)


class Unused(nn.Module):
    """A part that no sample reaches: it must stay as it is, decay or not."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(WIDTH, CLASSES), nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.used(inputs)
        return answer


def test_a_part_without_gradients_is_left_alone_as_in_one_process() -> None:
    recipe = replace(UNEVEN, model=Unused, weight_decay=0.5)
    alone = ran(recipe)
    first, _ = on_ranks(lambda _: told(ran(recipe)))
    assert torch.equal(weights(first)["unused.weight"], alone.weights["unused.weight"])
    assert furthest(alone.weights, weights(first)) < 1e-4


def test_a_model_that_begins_differently_on_each_process_is_made_one() -> None:
    def model() -> nn.Module:
        torch.manual_seed(os.getpid())
        return nn.Linear(WIDTH, CLASSES)

    first, second = on_ranks(lambda _: told(ran(replace(UNEVEN, model=model))))
    assert same_bits(weights(first), weights(second))


def test_dropout_is_of_its_own_on_each_process() -> None:
    def work(rank: int) -> Any:
        loop, _, _ = begin(replace(UNEVEN, model=with_dropout))
        loop.parts.model.train()
        return loop.parts.model[2](torch.ones(64)).tolist()  # type: ignore[index]

    first, second = on_ranks(work)
    assert first != second


# -- faults --


def spoil(inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    inputs[7] = math.nan
    return inputs, labels


def test_a_fault_on_one_process_is_named_by_the_one_that_speaks() -> None:
    recipe = replace(UNEVEN, data=Read(samples=49, change=spoil))
    alone = ran(recipe)
    first, second = on_ranks(lambda _: told(ran(recipe)))
    assert first["ending"] == second["ending"] == alone.ending
    assert "The data of the batch" in first["ending"].message


def _ran_in(recipe: Any, folder: Path, _: int) -> Any:
    return told(ran(recipe, Folder(folder)))


def test_both_skip_and_both_go_back(tmp_path: Path) -> None:
    for way in ("skip", "rollback"):
        recipe = replace(UNEVEN, data=Read(samples=49, change=spoil), on_nonfinite=way, save_every=3)
        alone = ran(recipe)
        first, second = on_ranks(partial(_ran_in, recipe, tmp_path / way))
        assert first["losses"] == pytest.approx(alone.losses, abs=1e-5, nan_ok=True)
        assert same_bits(weights(first), weights(second))
        assert first["ending"].reason == second["ending"].reason == "finished"
        assert len(first["notes"]) == len(alone.kept.notes) > 0
        assert second["notes"] == []


# -- leaving and coming back --


def stopped(recipe: Any, folder: Path, rank: int, at: int) -> Any:
    """A signal to the second process only."""
    loop, kept, store = begin(recipe, Folder(folder))

    def ask(*_: Any) -> None:
        if rank == 1 and loop.state.step + 1 == at:
            os.kill(os.getpid(), signal.SIGTERM)

    loop.parts.optimizer.register_step_post_hook(ask)
    return told(Ran(loop, kept, train(loop), store))


def test_a_signal_to_one_stops_both_at_the_same_step_with_a_checkpoint(tmp_path: Path) -> None:
    recipe = replace(UNEVEN, save_every=1000, evaluate_every=1000)
    first, second = on_ranks(lambda rank: stopped(recipe, tmp_path, rank, 3))
    assert first["ending"] == second["ending"]
    assert (first["ending"].reason, first["ending"].signal) == ("signal", signal.SIGTERM)
    assert Folder(tmp_path).names() == [f"step-{first['ending'].step:08d}"]


@pytest.mark.parametrize("rank_asked", [0, 1])
def test_a_signal_to_one_ends_the_evaluation_of_both_and_is_saved(tmp_path: Path, rank_asked: int) -> None:
    """Of 41 samples one process has 21 and the other 20: both leave at the same one."""
    recipe = replace(UNEVEN, data=Read(samples=52, valid=41), evaluation_batch=2)

    def work(rank: int) -> Any:
        loop, _, _ = begin(recipe, Folder(tmp_path))
        seen = 0

        def count(module: nn.Module, inputs: Any) -> None:
            nonlocal seen
            seen += not module.training
            if not module.training and rank == rank_asked and seen == 5:
                os.kill(os.getpid(), signal.SIGTERM)

        loop.model.register_forward_pre_hook(count)
        return train(loop), seen, loop.state.evaluation_due

    (ending, seen, due), second = on_ranks(work)
    assert second == (ending, seen, due), "both stop at the same batch"
    assert (ending.reason, ending.signal, due) == ("signal", signal.SIGTERM, True)
    assert 5 <= seen < 20, "it evaluated to the end"
    assert Folder(tmp_path).names()[-1] == f"step-{ending.step:08d}"
    whole = on_ranks(lambda _: told(ran(recipe)))[0]
    again = on_ranks(lambda _: told(ran(recipe, Folder(tmp_path), go_on=True)))[0]
    assert same_bits(weights(again), weights(whole))
    assert again["losses"] == whole["losses"][-len(again["losses"]) :]


@pytest.mark.parametrize("model", [with_dropout, with_norm])
def test_two_processes_resume_to_the_same_bits(tmp_path: Path, model: Any) -> None:
    recipe = replace(UNEVEN, model=model, ema=0.9, data=Read(samples=52))
    first, second = on_ranks(lambda _: told(ran(recipe, Folder(tmp_path / "whole"))))
    on_ranks(lambda rank: stopped(recipe, tmp_path / "cut", rank, 3))
    again, other = on_ranks(lambda _: told(ran(recipe, Folder(tmp_path / "cut"), go_on=True)))
    assert 0 < len(again["losses"]) < 20
    assert again["losses"] == first["losses"][-len(again["losses"]) :]
    assert same_bits(weights(again), weights(first))
    assert same_bits(weights(other), weights(second))


def test_one_process_goes_on_with_what_two_have_saved_and_says_what_differs(tmp_path: Path) -> None:
    recipe = replace(UNEVEN)
    whole = ran(recipe)
    on_ranks(lambda rank: stopped(recipe, tmp_path, rank, 3))
    over = ran(recipe, Folder(tmp_path), go_on=True)
    assert over.losses == pytest.approx(whole.losses[-len(over.losses) :], abs=1e-5)
    assert any("2 processes saved this checkpoint and 1 resume it" in note for note in over.kept.notes)
