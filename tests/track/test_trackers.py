"""Trackers by name: which there are, what happens without their packages, and what W&B and MLflow are told.

The two services cannot be reached from a test: small fakes stand in for their packages and write down how they are
called.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.track.rows import finished, on_test, start, told, trained, validated
from trueloop.errors import BadRecipe, MissingExtra
from trueloop.hook import Ending, Hook, Row, Start
from trueloop.recipe.recipe import Recipe
from trueloop.track import trackers
from trueloop.track.mlflow import Mlflow
from trueloop.track.tensorboard import TensorBoard
from trueloop.track.trackers import TRACKERS, FailSafe, check_trackers, open_trackers
from trueloop.track.wandb import Wandb

RECIPE = {"name": "digits", "lr": 0.003, "betas": [0.9, 0.999]}


def never(sentence: str) -> None:
    raise AssertionError(sentence)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which none of the packages is installed."""
    monkeypatch.setattr(trackers, "find_spec", {}.get)


# -- which there are --


def test_the_default_of_a_recipe_is_known() -> None:
    default = Recipe("x", model=dict, data=str).trackers
    assert set(default) <= set(TRACKERS)
    check_trackers(default)


def test_an_unknown_tracker_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        BadRecipe, match=r"There is no tracker 'tensorbord'\. Did you mean tensorboard\? Nothing was run"
    ):
        check_trackers(["tensorbord"])


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_was_asked_for_and_is_not_installed_is_refused_before_anything_runs(
    name: str, without: None
) -> None:
    with pytest.raises(MissingExtra, match=rf"Nothing was run: pip install 'trueloop\[{name}\]'"):
        check_trackers([name])


def test_tensorboard_is_on_by_default_so_that_its_absence_is_a_note(without: None, tmp_path: Path) -> None:
    hooks, notes = open_trackers(["tensorboard"], tmp_path, RECIPE, never)
    assert hooks == []
    (note,) = notes
    assert note.startswith("tensorboard is not installed")
    assert "pip install 'trueloop[tensorboard]'" in note


def test_a_folder_called_like_a_package_is_not_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda name: ModuleSpec(name, None))  # as for the folder ./wandb
    with pytest.raises(MissingExtra):
        check_trackers(["wandb"])


def test_with_its_package_tensorboard_writes(tmp_path: Path) -> None:
    hooks, notes = open_trackers(["tensorboard"], tmp_path, RECIPE, never)
    (hook,) = hooks
    assert isinstance(hook, FailSafe)
    assert isinstance(hook.hook, TensorBoard)
    assert notes == []
    told(hook, [trained(50)])
    assert list((tmp_path / "tensorboard").iterdir())


def test_no_tracker_is_fine(tmp_path: Path) -> None:
    assert open_trackers([], tmp_path, RECIPE, never) == ([], [])


# -- one that fails --


class Failing(Hook):
    def __init__(self) -> None:
        self.rows = 0

    def logged(self, row: Row) -> None:
        self.rows += 1
        if row.step >= 100:
            raise ConnectionError("no route to host")


def test_a_tracker_that_fails_says_so_once_and_the_run_goes_on() -> None:
    said: list[str] = []
    failing = Failing()
    told(FailSafe("mlflow", failing, said.append), [trained(50), trained(100), trained(150)])
    assert failing.rows == 2
    assert said == [
        "mlflow failed and gets no more metrics (ConnectionError: no route to host). The run's folder has them all."
    ]


def test_everything_is_passed_on_while_it_works() -> None:
    heard: list[str] = []

    class Listening(Hook):
        def started(self, start: Start) -> None:
            heard.append("started")

        def logged(self, row: Row) -> None:
            heard.append("logged")

        def saved(self, step: int, path: str) -> None:
            heard.append("saved")

        def noted(self, sentence: str) -> None:
            heard.append("noted")

        def ended(self, ending: Ending) -> None:
            heard.append("ended")

    hook = FailSafe("x", Listening(), never)
    hook.started(start())
    hook.logged(trained(50))
    hook.saved(50, "there")
    hook.noted("something")
    hook.ended(finished())
    assert heard == ["started", "logged", "saved", "noted", "ended"]


# -- Weights & Biases --


class FakeWandbRun:
    def __init__(self, id: str, step: int) -> None:
        self.id, self.step = id, step
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.summary: dict[str, float] = {}
        self.exit_code: int | None = None

    def log(self, values: dict[str, float], step: int) -> None:
        assert step >= self.step, "the service takes steps in their order only"
        self.step = step
        self.rows.append((step, values))

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    fake = SimpleNamespace(runs=[], asked=[], step=0)

    def init(**asked: Any) -> FakeWandbRun:
        fake.asked.append(asked)
        fake.runs.append(FakeWandbRun(asked["id"] or "abc123", fake.step))
        return fake.runs[-1]  # type: ignore[no-any-return]

    module = ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    return fake


def test_wandb_gets_the_recipe_the_rows_and_the_result(wandb: SimpleNamespace, tmp_path: Path) -> None:
    told(Wandb(tmp_path, RECIPE), [trained(50, 0.5), validated(60, 0.9), on_test(60, 0.875)])
    (asked,), (run,) = wandb.asked, wandb.runs
    assert (asked["project"], asked["name"], asked["id"], asked["resume"]) == ("trueloop", "digits", None, None)
    assert asked["config"]["lr"] == 0.003
    assert asked["config"]["parameters"] == 29_258
    assert [(step, values.get("train/loss", values.get("valid/accuracy"))) for step, values in run.rows] == [
        (50, 0.5),
        (60, 0.9),
    ]
    assert run.summary == {"test/accuracy": 0.875, "test/loss": 0.2, "best/accuracy": 0.985}
    assert run.exit_code == 0


def test_a_resumed_run_goes_on_under_its_name_and_sends_no_step_twice(wandb: SimpleNamespace, tmp_path: Path) -> None:
    told(Wandb(tmp_path, RECIPE), [trained(50), trained(100)], ending=Ending("signal", 100))
    assert wandb.runs[0].exit_code == 1
    wandb.step = 100  # where the service stands
    told(Wandb(tmp_path, RECIPE), [trained(50), trained(100), trained(150)], from_step=0)
    assert (wandb.asked[1]["id"], wandb.asked[1]["resume"]) == ("abc123", "allow")
    assert [step for step, _ in wandb.runs[1].rows] == [100, 150]


def test_the_project_is_the_users(wandb: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    told(Wandb(tmp_path, RECIPE), [])
    assert wandb.asked[0]["project"] == "mine"


# -- MLflow --


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    fake = SimpleNamespace(started=[], parameters=[], rows=[], statuses=[])

    def start_run(run_id: str | None, run_name: str | None) -> Any:
        fake.started.append((run_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id or "f00d"))

    module = ModuleType("mlflow")
    known = {
        "start_run": start_run,
        "log_params": fake.parameters.append,
        "log_metrics": lambda values, step: fake.rows.append((step, values)),
        "end_run": lambda status: fake.statuses.append(status),
    }
    vars(module).update(known)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return fake


def test_mlflow_gets_the_recipe_the_rows_and_the_status(mlflow: SimpleNamespace, tmp_path: Path) -> None:
    told(Mlflow(tmp_path, {**RECIPE, "long": "x" * 9999}), [trained(50, 0.5), validated(60, 0.9)])
    assert mlflow.started == [(None, "digits")]
    (parameters,) = mlflow.parameters
    assert parameters["lr"] == "0.003"
    assert len(parameters["long"]) == 500
    assert [(step, values.get("train/loss", values.get("valid/accuracy"))) for step, values in mlflow.rows] == [
        (50, 0.5),
        (60, 0.9),
    ]
    assert mlflow.statuses == ["FINISHED"]


def test_a_resumed_run_is_the_same_run_there(mlflow: SimpleNamespace, tmp_path: Path) -> None:
    told(Mlflow(tmp_path, RECIPE), [trained(50)], ending=Ending("signal", 50))
    told(Mlflow(tmp_path, RECIPE), [trained(100)], from_step=50, ending=Ending("nonfinite", 100))
    assert mlflow.started == [(None, "digits"), ("f00d", None)]
    assert len(mlflow.parameters) == 1  # a parameter cannot be written twice
    assert mlflow.statuses == ["KILLED", "FAILED"]


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_never_started_is_told_nothing(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    fake = request.getfixturevalue(name)
    hook = Wandb(tmp_path, RECIPE) if name == "wandb" else Mlflow(tmp_path, RECIPE)
    hook.logged(trained(50))
    hook.ended(finished())
    assert not (fake.runs if name == "wandb" else fake.rows + fake.statuses)
