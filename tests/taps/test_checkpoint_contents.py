"""What a checkpoint holds, told from the shape of its parts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from trueloop.event import Contents, SavedCounter
from trueloop.taps.checkpoint_contents import DEPTH, contents_of, path_of, saved_optimizers, weights_in


def trained(lr: float, weight_decay: float = 0.0) -> tuple[nn.Module, Optimizer]:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    return model, optimizer


def test_a_full_checkpoint_is_read_part_by_part() -> None:
    model, optimizer = trained(lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    schedule.step()
    value = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "random": torch.get_rng_state(),
        "epoch": 3,
        "best": 0.5,
        "done": True,
    }
    wanted = Contents(
        weights=2, optimizers=1, schedules=1, scalers=1, random=True, counters=(SavedCounter("epoch", 3),)
    )
    assert contents_of(value) == wanted
    assert contents_of(value | {"run": {"deep": value}}).optimizers == 2


@pytest.mark.parametrize(
    ("value", "modules"),
    [
        (nn.Linear(2, 2), (("", "Linear"),)),
        ({"net": nn.Linear(2, 2), "epoch": 1}, (("net", "Linear"),)),
        ([1, {"net": nn.BatchNorm1d(2, affine=False)}], (("1.net", "BatchNorm1d"),)),
        ({"loss": nn.MSELoss(), "transform": nn.Sequential(nn.ReLU())}, ()),
        (torch.fx.symbolic_trace(nn.Linear(2, 2)), ()),
        (nn.Linear(2, 2).state_dict(), ()),
        (torch.ones(3), ()),
    ],
    ids=["itself", "under a name", "in a list", "without weights", "with its code", "its weights", "a tensor"],
)
def test_whole_modules_are_found_where_they_lie(value: object, modules: tuple[tuple[str, str], ...]) -> None:
    assert contents_of(value).modules == modules


def test_states_that_hold_nothing_yet_do_not_count() -> None:
    optimizer = torch.optim.Adam(nn.Linear(2, 2).parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    held = contents_of({"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()})
    assert (held.optimizers, held.schedules) == (0, 0)
    assert not list(saved_optimizers({"optimizer": optimizer.state_dict()}))


def test_it_does_not_look_deeper_than_checkpoints_are() -> None:
    value: object = {"model": nn.Linear(2, 2).state_dict()}
    for _ in range(DEPTH):
        value = [value]
    assert contents_of(value).weights == 0
    assert not list(weights_in(value))


def test_an_optimizer_is_described_by_shapes_settings_and_steps() -> None:
    _, optimizer = trained(lr=0.1, weight_decay=0.5)
    (kept,) = saved_optimizers({"run": {"adam": optimizer.state_dict()}})
    assert kept.key == ("run", "adam")
    assert kept.shapes == ((2, 4), (2,))
    assert kept.kinds == {"step", "exp_avg", "exp_avg_sq"}
    assert kept.steps == 3
    assert kept.rates == ((0.1, 0.1),)
    assert kept.settings[0]["weight_decay"] == 0.5
    assert "lr" not in kept.settings[0]


def test_an_optimizer_in_a_list_is_a_frameworks_own_business() -> None:
    _, optimizer = trained(lr=0.1)
    assert contents_of({"optimizer_states": [optimizer.state_dict()]}).optimizers == 1
    assert not list(saved_optimizers({"optimizer_states": [optimizer.state_dict()]}))


def test_a_path_is_found_behind_names_paths_and_files(tmp_path: Path) -> None:
    file = tmp_path / "a.pt"
    assert path_of(file) == path_of(str(file)) == str(file)
    with file.open("wb") as opened:
        assert path_of(opened) == str(file)
    assert path_of(io.BytesIO()) == ""
