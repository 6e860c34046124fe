"""A loop of one's own in `trueloop.session`: the page's script, killed for real, interrupted, started again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trueloop
from tests.conftest import in_child
from tests.docs_blocks import python_blocks
from tests.session.test_changes import trueloop as cli
from tests.torture.bits import differences, remains
from trueloop.errors import BadCheckpoint, Misuse
from trueloop.session.folder import read_about
from trueloop.track.metrics import read_rows

SCRIPT = python_blocks("training/your-own-loop.md")[0]
DIE = "        if run.step == {at}: import os, signal; os.kill(os.getpid(), signal.{how})\n        run.log(loss=loss)\n"


def script(folder: Path, **changes: str) -> Path:
    """The page's script; `at` and `how`: it sends itself a signal at that step."""
    text = SCRIPT.replace('session("mine", ', 'session("mine", trackers=(), ')
    seeds = "import random, numpy; random.seed(0); numpy.random.seed(0)\n"  # unused, but part of a checkpoint
    text = text.replace("torch.manual_seed(0)\n", f"torch.manual_seed(0)\n{seeds}")
    if changes:
        text = text.replace("        run.log(loss=loss)\n", DIE.format(**changes))
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    return file


def run(folder: Path, **changes: str) -> tuple[int, str]:
    """In a process of its own, as users do."""
    file = script(folder, **changes)
    options: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run([sys.executable, str(file)], env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("undisturbed")
    code, printed = run(folder)
    assert code == 0, printed
    return folder


def test_killed_three_times_it_ends_with_the_same_bits(tmp_path: Path, undisturbed: Path) -> None:
    for at in (3, 13, 29):  # before the first checkpoint, in an epoch, in a later one
        assert run(tmp_path, at=str(at), how="SIGKILL")[0] == -signal.SIGKILL
        assert read_about(tmp_path / "runs/mine")["status"] == "running"
    code, printed = run(tmp_path)
    assert code == 0, printed
    assert not list(differences(remains(undisturbed / "runs/mine"), remains(tmp_path / "runs/mine")))


def test_sigterm_saves_that_step_ends_the_script_and_it_continues_exactly(tmp_path: Path, undisturbed: Path) -> None:
    code, printed = run(tmp_path, at="13", how="SIGTERM")
    assert code == -signal.SIGTERM, printed
    assert read_about(tmp_path / "runs/mine")["status"] == "signal"
    assert (tmp_path / "runs/mine/checkpoints/step-00000013").is_dir()
    assert run(tmp_path)[0] == 0
    assert not list(differences(remains(undisturbed / "runs/mine"), remains(tmp_path / "runs/mine")))


def test_the_run_is_listed_compared_rechecked_and_loaded(undisturbed: Path) -> None:
    assert "mine" in cli(undisturbed, "runs")[1]
    assert "finished" in cli(undisturbed, "runs")[1]
    code, printed = cli(undisturbed, "resume", "mine")
    assert (code, "start its script again" in printed) == (4, True)
    rows = list(read_rows(undisturbed / "runs/mine"))
    assert [row.step for row in rows if row.kind == "train"] == list(range(5, 41, 5))
    assert {"loss", "lr", "steps_per_second"} <= set(rows[0].values)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
    with pytest.raises(Misuse, match="model=model"):
        trueloop.load("mine", runs=undisturbed / "runs")
    loaded = trueloop.load("mine", runs=undisturbed / "runs", model=model, device="cpu")
    torch.manual_seed(0)
    inputs = torch.randn(600, 8)
    labels = (inputs[:, 0] * inputs[:, 1] > 0).long()
    accuracy = float((loaded.predict(inputs[400:]).argmax(1) == labels[400:]).float().mean())
    assert accuracy == read_about(undisturbed / "runs/mine")["best"]
    with pytest.raises(Misuse, match="no metrics"):
        loaded.evaluate()


def test_a_finished_script_started_again_does_nothing(undisturbed: Path) -> None:
    before = (undisturbed / "runs/mine/metrics.jsonl").read_bytes()
    assert run(undisturbed)[0] == 0
    assert (undisturbed / "runs/mine/metrics.jsonl").read_bytes() == before
    assert read_about(undisturbed / "runs/mine")["status"] == "finished"


# -- in this process --


def small(folder: Path, steps: int = 6, **options: Any) -> trueloop.Session:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"model": model, "optimizer": optimizer, "hooks": (), "trackers": (), "rules": False, **options}
    return trueloop.session("small", steps=steps, runs=folder, **options)


def test_values_of_ones_own_and_an_evaluation_after_the_loop(tmp_path: Path) -> None:
    def work() -> list[Any]:
        with small(tmp_path) as run:
            for step in run.steps():
                run.memory["sum"] = run.memory.get("sum", 0) + step
                run.log(loss=torch.tensor([float(step)]), other=2)
            best = run.evaluated(error=0.5)
        with small(tmp_path, steps=8) as run:
            left = list(run.steps())
            return [best, left, run.memory, run.evaluated(error=0.7), run.best, run.best_step]

    assert in_child(work) == [True, [6, 7], {"sum": 15}, False, 0.5, 6]
    rows = [(row.kind, row.step, row.best) for row in read_rows(tmp_path / "small")]
    first, second = [("train", step, False) for step in range(1, 7)], [("train", step, False) for step in (7, 8)]
    assert rows == [*first, ("valid", 6, True), *second, ("valid", 8, False)]
    assert json.loads((tmp_path / "small/run.json").read_text("utf-8"))["best_step"] == 6


def test_an_error_ends_the_run_as_failed_and_keeps_what_was_saved(tmp_path: Path) -> None:
    def work() -> str:
        try:
            with small(tmp_path, save_every=2) as run:
                for step in run.steps():
                    if step == 3:
                        raise ZeroDivisionError("mine")
        except ZeroDivisionError:
            pass
        with small(tmp_path, save_every=2) as run:
            return f"{run.step} {list(run.steps())}"

    assert in_child(work) == "2 [2, 3, 4, 5]"


def test_rules_report_into_the_run_folder(tmp_path: Path) -> None:
    def work() -> set[str]:
        with small(tmp_path, steps=40, rules=True) as run:
            model, optimizer = nn.Linear(3, 1), None
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in run.steps():
                loss = (model(torch.randn(8, 3)) ** 2).mean()
                loss.backward()
                optimizer.step()
        return {finding.name for finding in run.findings}

    assert "gradients-never-cleared" in in_child(work)
    assert "gradients-never-cleared" in (tmp_path / "small/report.json").read_text(encoding="utf-8")


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="steps cannot be 0"):
        small(tmp_path, steps=0)
    with pytest.raises(Misuse, match="a folder gets this name"):
        trueloop.session("a/b", steps=1, model=nn.Linear(1, 1))
    with pytest.raises(Misuse, match=r"thing= is list, without state_dict"), small(tmp_path, thing=[]):
        pass
    with small(tmp_path) as run:
        with pytest.raises(Misuse, match=r"give trueloop.session\(..., loader=loader\)"):
            next(run.batches())
        with pytest.raises(Misuse, match="a number, or a tensor of one"):
            run.log(loss=torch.zeros(3))
        with pytest.raises(Misuse, match="got no metric"):
            run.evaluated()
        run.evaluated(accuracy=1)
        with pytest.raises(Misuse, match="and not accuracy"):
            run.evaluated(f1=1)
        with pytest.raises(Misuse, match="being trained by another process"), small(tmp_path):
            pass
    shutil.rmtree(tmp_path / "small/checkpoints")
    with pytest.raises(BadCheckpoint, match="put the checkpoints back"), small(tmp_path, steps=9):
        pass
