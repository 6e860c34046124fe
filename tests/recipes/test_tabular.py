"""`trueloop train tabular data.csv --target y`, from the file to the resumed run."""

from __future__ import annotations

import csv
import json
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import in_child
from trueloop.cli.main import main
from trueloop.data.source import Facts
from trueloop.errors import BadData
from trueloop.hook import Ending, Hook, Row
from trueloop.recipe.recipe import DataRequest
from trueloop.recipes.catalogue import find_recipe
from trueloop.recipes.tabular import Network, recipe
from trueloop.session import train as session

# Signals are part of these tests, not their end.
train = partial(session.train, hand_on_signals=False)


def write(folder: Path, columns: dict[str, list[Any]], name: str = "data.csv") -> Path:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def weather(rows: int = 400) -> dict[str, list[Any]]:
    """What can be known of y from the others: which side of a line it lies on, moved by the season."""
    draw = np.random.default_rng(0)
    wind, sun = draw.normal(20, 5, rows), draw.normal(6, 2, rows)
    season = [("summer", "winter")[each] for each in draw.integers(0, 2, rows)]
    warmth = (sun - 6) / 2 - (wind - 20) / 5 + np.array([1.0 if each == "summer" else -1.0 for each in season])
    return {
        "wind": wind.round(3).tolist(),
        "sun": sun.round(3).tolist(),
        "season": season,
        "warm": ["yes" if each > 0 else "no" for each in warmth],
        "degrees": (1000 * (15 + 8 * warmth)).round(2).tolist(),
    }


def without(columns: dict[str, list[Any]], name: str) -> dict[str, list[Any]]:
    return {each: values for each, values in columns.items() if each != name}


def trained(folder: Path, columns: dict[str, list[Any]], target: str) -> Ending:
    def work() -> Any:
        short = replace(recipe(str(write(folder, columns)), target), epochs=15, trackers=())
        return train(short, runs=folder / "runs", hooks=[]).ending

    ending: Ending = in_child(work)
    return ending


def test_classes_are_learned(tmp_path: Path) -> None:
    ending = trained(tmp_path, without(weather(), "degrees"), "warm")
    assert ending.metric == "accuracy"
    assert ending.test is not None
    assert ending.test["accuracy"] > 0.93


def test_quantities_are_learned_in_their_own_unit(tmp_path: Path) -> None:
    columns = without(weather(), "warm")
    spread = float(np.std(columns["degrees"]))
    assert spread > 5000
    ending = trained(tmp_path, columns, "degrees")
    assert ending.metric == "loss"
    assert ending.test is not None
    assert ending.test["loss"] < 0.1 * spread**2
    assert 1 < ending.test["mae"] < 0.3 * spread


@pytest.mark.parametrize(
    ("target", "task", "outputs"),
    [("warm", "multiclass", 2), ("season", "multiclass", 2), ("degrees", "regression", 1)],
)
def test_the_column_decides_the_task_before_anything_runs(tmp_path: Path, target: str, task: str, outputs: int) -> None:
    made = recipe(str(write(tmp_path, weather())), target)
    assert made.task == task
    splits = made.data(DataRequest())
    model = made.model(splits.facts)
    assert model(splits.train.fetch(torch.arange(3)).inputs).shape == (3, outputs)


@pytest.mark.parametrize(("rows", "batch"), [(100, 16), (3000, 64), (100_000, 1024)])
def test_the_batch_follows_the_number_of_rows(tmp_path: Path, rows: int, batch: int) -> None:
    path = tmp_path / "long.csv"
    path.write_text("x,y\n" + "".join(f"{n % 7},{n % 2}\n" for n in range(rows)), encoding="utf-8")
    assert recipe(str(path), "y").batch == batch


def test_the_seed_draws_other_rows_and_nothing_else_does(tmp_path: Path) -> None:
    read = recipe(str(write(tmp_path, weather())), "warm").data
    one, same, other = (read(DataRequest(seed=seed)).train.inputs for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_model_starts_by_answering_about_the_mean() -> None:
    torch.manual_seed(0)
    model = Network(Facts(inputs=(4,), outputs=1, more={"mean": 1e6, "spread": 10.0})).eval()
    answers = model(torch.randn(64, 4))
    assert (answers - 1e6).abs().max() < 20
    assert {"mean", "spread"} <= set(model.state_dict())


def test_a_relative_path_is_made_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, weather())
    monkeypatch.chdir(tmp_path)
    made = find_recipe("tabular", {"table": "data.csv", "target": "warm"})
    monkeypatch.chdir("/")
    assert len(made.data(DataRequest()).train) == 280


def test_a_mistake_in_the_file_is_a_sentence_and_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = weather(40)
    columns["warm"][7] = ""
    path = write(tmp_path, columns)
    assert main(["train", "tabular", str(path), "--target", "warm", "--runs", str(tmp_path / "runs")]) == 4
    said = capsys.readouterr().err
    assert f"{path}, row 9: the target column 'warm' is empty" in said
    assert "Traceback" not in said
    assert not (tmp_path / "runs").exists()


def test_a_missing_column_is_suggested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, weather(40))
    assert main(["train", "tabular", str(path), "--target", "worm"]) == 4
    assert "has no column 'worm'. Did you mean warm?" in capsys.readouterr().err


def test_a_wrong_cell_elsewhere_is_a_sentence_too(tmp_path: Path) -> None:
    columns = weather(40)
    columns["wind"][3] = "strong"
    made = recipe(str(write(tmp_path, columns)), "warm")
    with pytest.raises(BadData, match="row 5: column 'wind' holds 'strong', but its other values are numbers"):
        made.data(DataRequest())


class _Stopped(Hook):
    """Asks the run to end at its third validation."""

    def __init__(self) -> None:
        self.seen = 0

    def logged(self, row: Row) -> None:
        self.seen += row.kind == "valid"
        if self.seen == 3:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_stopped_run_is_resumed_from_another_folder_to_the_same_numbers(tmp_path: Path) -> None:
    write(tmp_path, without(weather(120), "degrees"))
    arguments = {"table": str(tmp_path / "data.csv"), "target": "warm"}

    made = replace(recipe(**arguments), epochs=6)

    def whole() -> Any:
        return train(made, runs=tmp_path / "whole", hooks=[]).ending

    def stopped() -> Any:
        origin = {"recipe": "tabular", "arguments": arguments, "settings": {"epochs": "6"}}
        return train(made, runs=tmp_path / "stopped", hooks=[_Stopped()], origin=origin).ending

    def resumed() -> Any:
        os.chdir("/")
        return main(["resume", str(tmp_path / "stopped" / "tabular")])

    undisturbed = in_child(whole)
    assert in_child(stopped).reason == "signal"
    assert in_child(resumed) == 0
    about = json.loads((tmp_path / "stopped" / "tabular" / "run.json").read_text(encoding="utf-8"))
    assert about["status"] == "finished"
    assert about["best"] == undisturbed.best
    assert about["test"] == undisturbed.test


def test_the_command_line_writes_down_where_the_table_lies(tmp_path: Path) -> None:
    write(tmp_path, without(weather(60), "degrees"))

    def work() -> Any:
        os.chdir(tmp_path)
        return main(["train", "tabular", "data.csv", "--target", "warm", "--set", "epochs=1"])

    assert in_child(work) == 0
    about = json.loads((tmp_path / "runs" / "tabular" / "run.json").read_text(encoding="utf-8"))
    assert about["origin"]["arguments"] == {"table": str(tmp_path / "data.csv"), "target": "warm"}
