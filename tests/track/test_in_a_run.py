"""The hooks in real, tiny runs: what lies in the folder, after an end, a resume, an error, a full disk."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.conftest import in_child
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import BadRecipe, MissingExtra
from trueloop.hook import Ending, Hook, Row, Start
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.session.comparison import compared
from trueloop.session.runs import summary_of
from trueloop.session.train import resume, train
from trueloop.track import trackers
from trueloop.track.metrics import read_rows


def _read(request: DataRequest) -> Splits:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(96, 4, generator=generator)
    labels = (inputs.sum(dim=1) > 0).long()
    parts = [Tensors(inputs[begin:end], labels[begin:end]) for begin, end in ((0, 64), (64, 80), (80, 96))]
    return Splits(train=parts[0], valid=parts[1], test=parts[2], facts=Facts(inputs=(4,), classes=("below", "above")))


RECIPE = Recipe(
    "tiny", model=lambda: nn.Linear(4, 2), data=_read, steps=24, batch=8, lr=0.05, log_every=2, device="cpu"
)


class Listening(Hook):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.endings: list[Ending] = []
        self.start: Start | None = None

    def started(self, start: Start) -> None:
        self.start = start

    def noted(self, sentence: str) -> None:
        self.said.append(sentence)

    def ended(self, ending: Ending) -> None:
        self.endings.append(ending)


class Breaking(Hook):
    """Raises at a step."""

    def __init__(self, step: int, error: BaseException) -> None:
        self.step, self.error = step, error

    def logged(self, row: Row) -> None:
        if row.step == self.step:
            raise self.error


def test_a_run_leaves_its_metrics_its_console_and_what_tensorboard_reads(tmp_path: Path) -> None:
    listening = Listening()
    done = train(RECIPE, runs=tmp_path, hooks=[listening])
    assert done.ending.reason == "finished"
    rows = list(read_rows(done.folder))
    assert [row.step for row in rows if row.kind == "train"] == list(range(2, 25, 2))
    assert [row.kind for row in rows][-1] == "test"
    console = (done.folder / "console.log").read_text(encoding="utf-8").splitlines()
    assert console[0].startswith("tiny: ")
    for row in (row for row in rows if row.kind == "train"):
        assert any(line.startswith(f"step {row.step:>2}/24 ") for line in console)
    assert console[-1] == f"curves     trueloop ui {done.folder}"
    assert len(list((done.folder / "tensorboard").iterdir())) == 1
    assert listening.start is not None
    assert listening.start.folder == str(done.folder)
    (ending,) = listening.endings
    assert ending.best_checkpoint == done.best_checkpoint


def test_what_is_listed_is_what_was_reached(tmp_path: Path) -> None:
    done = train(RECIPE, runs=tmp_path, hooks=[])
    run = summary_of(done.folder)
    assert (run.status, run.step, run.total_steps, run.recipe) == ("finished", 24, 24, "tiny")
    assert (run.metric, run.best, run.best_step) == (done.ending.metric, done.ending.best, done.ending.best_step)
    assert run.test == pytest.approx(dict(done.ending.test or {}))


def test_two_runs_of_a_recipe_are_bit_equal_and_another_seed_is_not(tmp_path: Path) -> None:
    paths = [
        train(replace(RECIPE, seed=seed), name=name, runs=tmp_path, hooks=[]).folder
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    seen = compared(paths)
    same, other = seen.partings
    assert same.step is None
    assert same.compared >= 12
    assert other.step == 2
    assert seen.recipe == {"seed": (0, 0, 1)}


def test_a_resumed_run_has_every_row_once_and_the_numbers_of_the_undisturbed_one(tmp_path: Path) -> None:
    whole = train(RECIPE, name="whole", runs=tmp_path, hooks=[]).folder
    with pytest.raises(RuntimeError, match="pulled the plug"):
        train(RECIPE, name="broken", runs=tmp_path, hooks=[Breaking(20, RuntimeError("pulled the plug"))])
    broken = tmp_path / "broken"
    assert summary_of(broken).status == "failed"
    resume(RECIPE, broken, hooks=[])
    assert [(row.kind, row.step) for row in read_rows(broken)] == [(row.kind, row.step) for row in read_rows(whole)]
    (parted,) = compared([whole, broken]).partings
    assert (parted.step, parted.compared > 0) == (None, True)
    assert summary_of(broken).status == "finished"


def test_an_error_in_a_run_ends_the_hooks_and_is_raised(tmp_path: Path) -> None:
    listening = Listening()
    with pytest.raises(ZeroDivisionError):
        train(RECIPE, runs=tmp_path, hooks=[listening, Breaking(6, ZeroDivisionError())])
    (ending,) = listening.endings
    assert ending.reason == "failed"
    assert "step  4/24" in (tmp_path / "tiny" / "console.log").read_text(encoding="utf-8")


# -- refused before anything runs --


def test_an_unknown_tracker_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match="Did you mean wandb"):
        train(replace(RECIPE, trackers=("wanb",)), runs=tmp_path, hooks=[])  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_that_is_not_installed_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", {}.get)
    with pytest.raises(MissingExtra, match="pip install"):
        train(replace(RECIPE, trackers=("mlflow",)), runs=tmp_path, hooks=[])
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_tensorboard_trains_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", {}.get)
    listening = Listening()
    done = train(RECIPE, runs=tmp_path, hooks=[listening])
    assert done.ending.reason == "finished"
    assert listening.start is not None
    assert sum("tensorboard is not installed" in note for note in listening.start.notes) == 1


# -- a disk that takes no more --


class Filling(Hook):
    """Lets no file grow beyond some bytes, from the start on."""

    def started(self, start: Start) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))


def test_a_full_disk_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    def work() -> tuple[str, str, int]:
        listening = Listening()
        done = train(replace(RECIPE, evaluate_every=24), runs=tmp_path, hooks=[Filling(), listening])
        return done.ending.reason, done.ending.message, len(listening.endings)

    reason, message, endings = in_child(work)
    assert (reason, endings) == ("failed", 1)
    assert f"{tmp_path / 'tiny' / 'metrics.jsonl'} could not be written (File too large)." in message
    assert f"`trueloop resume {tmp_path / 'tiny'}` continues it." in message
    about: dict[str, Any] = json.loads((tmp_path / "tiny" / "run.json").read_text(encoding="utf-8"))
    assert about["status"] == "running"  # which could not be changed any more: the list says 'killed'
    assert summary_of(tmp_path / "tiny").status == "killed"
    assert list(read_rows(tmp_path / "tiny"))


def test_displays_hear_of_the_first_step_and_the_metrics_keep_their_rows(tmp_path: Path) -> None:
    class Shown(Hook):
        rows: list[Row] = []

        def progressed(self, row: Row) -> None:
            self.rows.append(row)

    shown = Shown()
    train(replace(RECIPE, log_every=20), name="rare", runs=tmp_path, hooks=[shown])
    assert shown.rows[0].step == 1
    assert shown.rows[0].values["loss"] > 0
    assert [row.step for row in read_rows(tmp_path / "rare", ("train",))] == [20, 24]
