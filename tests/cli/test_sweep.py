"""`trueloop sweep`: real runs in processes of their own; killed in the middle, the same command ends the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_check import trueloop
from tests.waiting import until

RECIPE = """
import torch
from torch import nn
from trueloop import Recipe, Splits, Tensors

def data(request):
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=draws)
    y = (x[:, :3] + 0.8 * torch.randn(400, 3, generator=draws)).argmax(1)
    return Splits(Tensors(x[:200], y[:200]), Tensors(x[200:300], y[200:300]), Tensors(x[300:], y[300:]))

def recipe(hidden: int = 16):
    if hidden == 13:
        raise ValueError("thirteen")
    layers = lambda facts: nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(16 if hidden == 9 else hidden, 3))
    return Recipe(name="tiny", model=layers, data=data, epochs=4, batch=50, lr=1e-2)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.py").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "trueloop", "sweep", "tiny.py", *words]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, timeout=500)


def evaluations(run: Path) -> int:
    rows = run / "metrics.jsonl"
    return rows.read_text(encoding="utf-8").count("valid") if rows.is_file() else 0


def values(report: str) -> dict[str, Any]:
    """Run -> its validation value, and the test values of the chosen setting."""
    plain = json.loads(report)
    trials = {trial["run"]: trial["value"] for setting in plain["settings"] for trial in setting["trials"]}
    return {**trials, "test": plain["test"], "verdict": plain["verdict"]}


@pytest.mark.long
def test_a_sweep_that_was_killed_ends_as_if_it_had_not_been(folder: Path) -> None:
    words = ["--over", "lr=1e-3,1e-2", "--seeds", "2", "--set", "epochs=100", "--format", "json", "--jobs", "2"]
    whole = run(folder, *words, "--runs", "whole")
    assert whole.returncode == 0, whole.stderr
    sweep = subprocess.Popen(
        command(*words, "--runs", "cut"), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    first = folder / "cut" / "tiny-sweep-lr=1e-3-seed=0"
    until(lambda: evaluations(first) > 3, "three evaluations of the first run", 300)
    os.kill(sweep.pid, signal.SIGKILL)
    sweep.wait()
    listed = run(folder, *words[:-4], "--runs", "cut", "--dry-run").stdout
    assert "nothing" not in listed.partition("\n")[0]
    cut = run(folder, *words, "--runs", "cut")
    assert cut.returncode == 0, cut.stderr
    assert values(cut.stdout) == values(whole.stdout)
    about = json.loads((first / "run.json").read_text(encoding="utf-8"))
    assert about["group"] == "tiny-sweep"
    assert about["varied"] == {"lr": "1e-3", "seed": "0"}
    again = run(folder, *words, "--runs", "cut")
    assert again.stderr.count("kept") == 4
    assert values(again.stdout) == values(whole.stdout)


@pytest.mark.long
def test_interrupted_by_ctrl_c(folder: Path) -> None:
    words = ["--over", "lr=1e-3,1e-2", "--set", "epochs=100000"]
    sweep = subprocess.Popen(
        command(*words), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    first = folder / "runs" / "tiny-sweep-lr=1e-3-seed=0"
    until(lambda: evaluations(first) > 3, "three evaluations of the first run", 300)
    sweep.send_signal(signal.SIGINT)
    out, err = sweep.communicate(timeout=120)
    assert sweep.returncode == 130, err
    assert "type the same command again to continue" in out
    assert json.loads((first / "run.json").read_text(encoding="utf-8"))["status"] == "signal"


@pytest.mark.long
def test_own_hyperparameters_failures_and_groups(folder: Path) -> None:
    done = run(folder, "--over", "hidden=4,8", "--random", "2", "--group", "width", "--set", "epochs=2")
    assert done.returncode == 0, done.stderr
    assert "one seed per setting shows no noise" in done.stdout
    assert max(map(len, done.stdout.splitlines()[2:7])) <= 100
    other = trueloop(folder, "sweep", "tiny.py", "--over", "hidden=4,8", "--group", "width", "--set", "epochs=3")
    assert other.code == 4
    assert "epochs=2, now 3" in other.err
    listed = trueloop(folder, "runs", "--group", "width")
    assert listed.out.count("width-hidden=") == 2
    missing = trueloop(folder, "runs", "--group", "wdth")
    assert missing.code == 4
    assert "Did you mean width?" in missing.err


@pytest.mark.long
def test_a_run_that_fails_is_named_and_the_others_are_trained(folder: Path) -> None:
    done = run(folder, "--over", "hidden=9,16", "--set", "epochs=2")
    assert done.returncode == 1, done.stderr
    assert "1 of 2 trials finished, 1 failed" in done.stdout
    assert "tiny-sweep-hidden=9-seed=0: Batch 0 of the training data" in done.stdout
    assert "hidden=16: accuracy" in done.stdout


@pytest.mark.long
def test_halving_ends_hopeless_runs_early_and_remembers_it(folder: Path) -> None:
    words = ["--over", "lr=3e-2,2e-2,1e-2,1e-7", "--set", "epochs=120", "--halving", "--format", "json"]
    done = run(folder, *words, "--set", "schedule=constant")
    assert done.returncode == 0, done.stderr
    states = {setting["values"]["lr"]: setting["trials"][0]["state"] for setting in json.loads(done.stdout)["settings"]}
    assert states["1e-7"] == "halved"
    assert "finished" in states.values()
    again = run(folder, *words, "--set", "schedule=constant")
    assert again.stderr.count("kept") == 4
    assert json.loads(again.stdout)["settings"] == json.loads(done.stdout)["settings"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Which recipe?"),
        (["tiny.py"], "What is varied?"),
        (["tiny.py", "--over", "lr"], "expected NAME=VALUES"),
        (["tiny.py", "--over", "learning_rate=1,2"], "Did you mean lr?"),
        (["tiny.py", "--over", "lr=1e-3,fast"], "lr=fast is not valid"),
        (["tiny.py", "--over", "lr=1e-4..1e-1"], "add --random N"),
        (["tiny.py", "--over", "lr=1,2", "--set", "lr=3"], "in --set and in --over"),
        (["tiny.py", "--over", "seed=1,2"], "type --seeds N"),
        (["tiny.py", "--over", "hidden=8,x"], "hidden=x is not valid"),
        (["tiny.py", "--over", "lr=1,2", "--draw", "3"], "--draw belongs to --random"),
        (["tiny.py", "--random", "3", "--seeds", "2"], "--random needs --over"),
        (["tiny.py", "--over", "lr=1,2", "--group", "a/b"], "--group cannot be"),
        (["tiny.py", "--over", "lr=1,2", "--jobs", "0"], "--jobs"),
        (["nonsense", "--over", "lr=1,2"], "There is no recipe"),
    ],
)
def test_misuse_is_one_sentence_and_runs_nothing(folder: Path, words: list[str], sentence: str) -> None:
    ended = trueloop(folder, "sweep", *words)
    assert ended.code == 4, ended.err
    assert sentence in ended.err
    assert "othing was run" in ended.err
    assert not (folder / "runs").exists()


def test_a_dry_run_lists_the_runs(folder: Path) -> None:
    ended = trueloop(folder, "sweep", "tiny.py", "--over", "lr=1e-3,1e-2", "--seeds", "2", "--dry-run")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        f"runs/tiny-sweep-lr={lr}-seed={seed}: train" for seed in (0, 1) for lr in ("1e-3", "1e-2")
    ]


def test_your_own_code_that_raises_is_yours(folder: Path) -> None:
    ended = trueloop(folder, "sweep", "tiny.py", "--over", "hidden=8,13")
    assert ended.code == 1
    assert "ValueError: thirteen" in ended.err
    assert not (folder / "runs").exists()
