"""`trueloop profile` as it is typed: scripts, recipes, wrong words, formats and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trueloop.cli.main import main

SCRIPT = """
import sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.parent))
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trueloop", "profile", *words], capture_output=True, text=True, timeout=300
    )


@pytest.mark.long
def test_a_document_stands_alone_on_stdout_and_the_trace_is_written() -> None:
    done = typed("--format", "json", "--trace", "trace.json", "train.py", "100000", "0")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"]["kind"] in ("launch", "python", "compute", "memory")
    assert report["steps"]["count"] >= 20
    assert "loss" not in done.stderr  # the run was ended when everything had been seen
    assert json.loads(Path("trace.json").read_text())["traceEvents"]


def test_the_script_keeps_its_output_and_its_exit_code() -> None:
    done = typed("--steps", "30", "--to-end", "train.py", "60", "7")
    assert done.returncode == 7
    assert done.stdout.startswith("loss ")
    assert "A step takes" in done.stderr
    assert (
        done.stdout
        == subprocess.run([sys.executable, "train.py", "60", "7"], capture_output=True, text=True, timeout=60).stdout
    )


def test_a_script_that_fails_is_shown_and_told_as_far_as_it_went() -> None:
    Path("broken.py").write_text(
        SCRIPT.replace('print("loss"', "raise ValueError('own')\nprint('loss'"), encoding="utf-8"
    )
    done = typed("broken.py", "20", "0")
    assert done.returncode == 1
    assert "ValueError: own" in done.stderr
    assert "src/trueloop" not in done.stderr
    assert "the run ended (ValueError: own) after 20 steps" in done.stderr


@pytest.mark.long
def test_a_recipe_is_trained_and_told() -> None:
    done = typed("--steps", "30", "--set", "batch=32", "--format", "html", "--output", "profile.html", "digits")
    assert done.returncode == 0, done.stderr
    assert "waiting for data" in Path("profile.html").read_text()
    assert not Path("runs").exists()


@pytest.mark.long
def test_steps_that_are_played_at_once_are_told_one_by_one() -> None:
    done = typed("--steps", "30", "--set", "program=cuda_graphs", "digits")
    assert done.returncode == 0, done.stderr
    assert "program=cuda_graphs hides the phases of a step" in done.stderr


def test_no_training_is_told_by_the_exit_code() -> None:
    Path("empty.py").write_text("print('nothing')\n", encoding="utf-8")
    done = typed("empty.py")
    assert done.returncode == 1
    assert "no training step was seen" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Profile what?"),
        (("digts",), "Did you mean digits?"),
        (("nowhere.py",), "There is no file nowhere.py"),
        (("--format", "jsn", "train.py"), "Did you mean json?"),
        (("--steps", "3", "train.py"), "20 or more"),
        (("--window", "x", "train.py"), "--window cannot be 'x'"),
        (("--set", "lr=1", "train.py"), "is a script"),
        (("--output", "train.py", "train.py"), "would overwrite a Python file"),
        (("--trace", "missing/trace.json", "train.py"), "--trace"),
        (("--stpes", "30", "train.py"), "Did you mean --steps?"),
    ],
)
def test_wrong_words_are_refused_and_nothing_is_run(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *words]) == 4
    told = capsys.readouterr().err
    assert said in told
    assert "Nothing was run" in told
