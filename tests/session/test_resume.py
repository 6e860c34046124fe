"""A run that was stopped anywhere, by anything, and goes on, ends with the bits of the one that nobody disturbed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.conftest import in_child
from tests.session.stopping import Words, at_forward, recipe_of, signalling
from tests.torture.beacon import Beacon
from tests.torture.bits import differences, remains
from tests.torture.recipes import SCENARIOS
from tests.torture.victim import begin
from trueloop.cli.train import exit_code
from trueloop.errors import BadRecipe, Misuse, NotARun
from trueloop.recipe.recipe import Recipe
from trueloop.session import train as session
from trueloop.session.folder import RunFolder, read_about, running

# Signals are part of these tests, not their end.
train = partial(session.train, hand_on_signals=False)
resume = partial(session.resume, hand_on_signals=False)

ALL = [scenario.name for scenario in SCENARIOS]


def trained(recipe: Recipe, run: Path, **options: Any) -> tuple[int, str]:
    """In a child: its exit code and last words."""

    def work() -> tuple[int, str]:
        made = (
            resume(recipe, run, hooks=[])
            if run.exists()
            else train(recipe, name=run.name, runs=run.parent, hooks=[], **options)
        )
        return exit_code(made.ending), made.ending.message

    code, words = in_child(work)
    return code, words


@cache
def undisturbed(scenario: str) -> dict[str, Any]:
    run = Path(mkdtemp()) / "undisturbed"
    assert trained(recipe_of(scenario), run) == (0, read_about(run)["message"])
    return remains(run)


def assert_same(scenario: str, run: Path) -> None:
    assert not list(differences(undisturbed(scenario), remains(run)))


@pytest.mark.parametrize("scenario", ALL)
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.long)],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_run_that_is_asked_to_stop_saves_says_how_to_go_on_and_ends_with_the_same_bits(
    tmp_path: Path, scenario: str, number: int, code: int
) -> None:
    run = tmp_path / "run"
    # Forward 26 is in the middle of an epoch, of a log line, and where steps are split, of a step.
    stopped, words = trained(at_forward(recipe_of(scenario), 26, signalling(number)), run)
    assert stopped == code
    assert f"trueloop resume {run}" in words
    about = read_about(run)
    assert about["status"] == "signal"
    assert about["step"] == remains(run)["last checkpoint"]["about"]["step"] > 0
    assert trained(recipe_of(scenario), run)[0] == 0
    assert_same(scenario, run)


@pytest.mark.parametrize("scenario", ALL)
def test_a_run_that_is_killed_twice_ends_with_the_same_bits(tmp_path: Path, scenario: str) -> None:
    run = tmp_path / "run"
    for forward in (20, 9):
        victim = begin(at_forward(recipe_of(scenario), forward, signalling(signal.SIGKILL)), run, Beacon())
        assert victim.wait() == -signal.SIGKILL
        assert read_about(run)["status"] == "running"
    assert trained(recipe_of(scenario), run)[0] == 0
    assert_same(scenario, run)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_run_may_go_on_with_another_number_of_workers(tmp_path: Path, workers: int) -> None:
    run = tmp_path / "run"
    trained(at_forward(recipe_of("workers"), 40, signalling(signal.SIGTERM)), run)
    trained(recipe_of("workers", workers=workers), run)
    left, expected = remains(run), undisturbed("workers")
    for which in ("last checkpoint", "best checkpoint"):
        for part in ("model", "ema", "training"):
            assert not list(differences(expected[which][part], left[which][part]))
    assert not list(differences(expected["metrics"], left["metrics"]))


def test_a_run_without_any_checkpoint_yet_begins_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    victim = begin(at_forward(recipe_of("resident"), 3, signalling(signal.SIGKILL)), run, Beacon())
    assert victim.wait() == -signal.SIGKILL
    assert not (run / "checkpoints").exists()
    assert trained(recipe_of("resident"), run)[0] == 0
    assert_same("resident", run)


def test_a_run_killed_between_its_last_checkpoint_and_its_end_only_ends(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(recipe_of("resident"), run)
    folder = RunFolder.open(run)
    folder.write(status="running", test=None)
    folder.close()
    assert trained(recipe_of("resident"), run)[0] == 0
    assert_same("resident", run)  # also: one row of the test, not two


def test_a_second_control_c_leaves_at_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    twice = at_forward(recipe_of("resident"), 26, lambda: (signalling(signal.SIGINT)(), signalling(signal.SIGINT)()))
    assert begin(twice, run, Beacon()).wait() == 130
    about = read_about(run)
    assert about["status"] == "signal"
    assert "Interrupted at step 25" in about["message"]
    assert f"trueloop resume {run}" in about["message"]
    assert trained(recipe_of("resident"), run)[0] == 0
    assert_same("resident", run)


def test_ctrl_c_and_a_sigterm_to_the_whole_group_do_not_take_the_workers_away(tmp_path: Path) -> None:
    """A terminal, and many schedulers, signal every process of a job."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        run = tmp_path / str(number)
        recipe = at_forward(recipe_of("workers"), 26, partial(os.killpg, 0, number))
        assert begin(recipe, run, Beacon()).wait() == code
        assert trained(recipe_of("workers"), run)[0] == 0
        assert_same("workers", run)


def test_workers_that_outlive_a_killed_run_do_not_keep_it_locked(tmp_path: Path) -> None:
    run = tmp_path / "run"
    victim = begin(at_forward(recipe_of("workers"), 26, signalling(signal.SIGKILL)), run, Beacon())
    victim.wait()
    assert not running(run), "its workers live on for some seconds"
    assert trained(recipe_of("workers"), run)[0] == 0


def test_two_processes_must_not_train_into_one_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    victim = begin(at_forward(recipe_of("resident"), 26, lambda: time.sleep(60)), run, Beacon())
    while not (run / "metrics.jsonl").exists() or (run / "metrics.jsonl").stat().st_size == 0:
        time.sleep(0.01)
    try:
        assert running(run)
        with pytest.raises(Misuse, match=r"is being trained by another process. Nothing was run"):
            resume(recipe_of("resident"), run, hooks=[])
    finally:
        victim.kill()
    assert not running(run)


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(recipe_of("resident", epochs=1, warmup=0), run)
    with pytest.raises(Misuse, match="has finished: there is nothing to resume"):
        resume(recipe_of("resident", epochs=1, warmup=0), run, hooks=[])
    assert not running(run), "a refusal must not keep the lock"


def test_another_recipe_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(at_forward(recipe_of("resident"), 26, signalling(signal.SIGTERM)), run)
    with pytest.raises(BadRecipe, match=r"was trained with a different recipe \(lr: 0.02, now 0.5\). Nothing was run"):
        resume(recipe_of("resident", lr=0.5), run, hooks=[])
    assert not running(run)
    assert trained(recipe_of("resident"), run)[0] == 0


def test_no_run_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARun, match="holds no run"):
        resume(recipe_of("resident"), tmp_path, hooks=[])


def test_a_run_shielded_from_control_c_stays_shielded(tmp_path: Path) -> None:
    """nohup and a shell's & ignore SIGINT for it: that is somebody's wish."""

    def work() -> tuple[int, bool]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        made = train(
            at_forward(recipe_of("resident"), 26, signalling(signal.SIGINT)), name="run", runs=tmp_path, hooks=[]
        )
        return exit_code(made.ending), signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    assert in_child(work) == (0, True)


def test_handlers_of_signals_are_put_back(tmp_path: Path) -> None:
    def work() -> bool:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        train(recipe_of("resident", epochs=1, warmup=0), name="run", runs=tmp_path, hooks=[])
        return before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))

    assert in_child(work)


def test_an_error_in_a_step_lets_the_save_before_it_finish(tmp_path: Path) -> None:
    run = tmp_path / "run"

    def broken() -> None:
        raise ZeroDivisionError("in the model")

    def work() -> str:
        try:
            train(at_forward(recipe_of("resident"), 15, broken), name="run", runs=tmp_path, hooks=[])
        except ZeroDivisionError as error:
            return str(error)
        return ""

    assert in_child(work) == "in the model"
    about = read_about(run)
    assert about["status"] == "failed"
    assert "ZeroDivisionError: in the model" in about["message"]
    assert remains(run)["last checkpoint"]["about"]["step"] == 14
    assert trained(recipe_of("resident"), run)[0] == 0
    assert_same("resident", run)


def test_early_stopping_ends_with_a_checkpoint_and_is_an_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    recipe = recipe_of("resident", epochs=50, patience=1, evaluate_every=3, save_every=1000, warmup=0)
    assert trained(recipe, run)[0] == 0
    left = remains(run)
    assert left["result"]["status"] == "early-stopped"
    assert left["last checkpoint"]["about"]["step"] == left["result"]["step"]
    with pytest.raises(Misuse, match="nothing to resume"):
        resume(recipe, run, hooks=[])


def test_saves_are_told_to_hooks(tmp_path: Path) -> None:
    def work() -> list[int]:
        words = Words()
        train(replace(recipe_of("resident"), hooks=(words,)), name="run", runs=tmp_path, hooks=[])
        return words.saved_steps

    assert in_child(work)[:3] == [7, 14, 20]
