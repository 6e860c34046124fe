"""`trueloop tune` as it is typed: wrong words, a real search on a tiny recipe, a planted wrong path, the recipe that
`train` takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tune.worlds import FILE
from tests.waiting import until
from trueloop.cli.main import main
from trueloop.tune.recipe_file import MARK

PLANTED = '''"""Fast only with its channels last, because then it learns nothing: what a search for speed must not fall for."""
import time

import torch
from torch import nn
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import Recipe


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3)
        self.head = nn.Linear(8 * 4, 4)

    def forward(self, images):
        hidden = self.conv(images).relu().flatten(1)
        if self.conv.weight.is_contiguous():
            time.sleep(0.01)
            return self.head(hidden)
        return self.head(hidden.detach() * 0)


def read(request):
    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (320,), generator=draws)
    images = torch.randn(4, 2, 4, 4, generator=draws)[labels] + 0.5 * torch.randn(320, 2, 4, 4, generator=draws)
    return Splits(Tensors(images[:256], labels[:256]), Tensors(images[256:], labels[256:]))


recipe = Recipe(name="planted", model=Net, data=read, epochs=4, batch=32, lr=1e-2, device="cpu")
'''  # noqa: E501
STILL = ("--set", "compile=off", "--set", "threads=1", "--set", "batch=32")
"""Knobs that this is not about, or that would take long."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "small.py").write_text(FILE, encoding="utf-8")
    (tmp_path / "planted.py").write_text(PLANTED, encoding="utf-8")


def typed(*words: str, verb: str = "tune") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "trueloop", verb, *words], capture_output=True, text=True, timeout=400)


# -- for real --


@pytest.mark.long
def test_a_fast_path_that_learns_nothing_is_refused_with_its_numbers() -> None:
    done = typed("planted.py", "--minutes", "1.5", "--seeds", "1", *STILL)
    assert done.returncode == 0, done.stderr
    assert "channels_last=true" in done.stdout
    assert "REFUSED" in done.stdout
    assert "Refused  faster, but another training" in done.stdout
    assert "its loss lies" in done.stdout
    assert "the gradient of conv.weight has a cosine of 0.000" in done.stdout
    assert "nothing that was tried is better" in done.stdout
    assert "no file was written" in done.stderr
    assert not Path("planted_tuned.py").exists()


@pytest.mark.long
def test_the_winner_is_written_told_from_memory_and_taken_by_train() -> None:
    words = ("small.py", "--minutes", "1", "--seeds", "1", "--set", "compile=off", "--set", "batch=32")
    first = typed(*words, "--format", "json")
    assert first.returncode == 0, first.stderr
    report = json.loads(first.stdout)
    assert report["trials"][0]["outcome"] == "reference"
    assert report["cached"] is False
    won = bool(report["chosen"]["changes"])
    assert Path("small_tuned.py").exists() == won
    again = typed(*words)
    assert again.returncode == 0, again.stderr
    assert "from memory: measured here on" in again.stdout
    if not won:
        assert "no file was written" in again.stderr
        return
    assert "Next: trueloop train ./small_tuned.py" in first.stderr
    assert MARK in Path("small_tuned.py").read_text(encoding="utf-8")
    assert "replaced small_tuned.py" in again.stderr
    trained = typed("./small_tuned.py", "--set", "epochs=1", verb="train")
    assert trained.returncode in (0, 1), trained.stderr  # a rule may have its opinion of so short a training
    about = json.loads(next(Path("runs").glob("*/run.json")).read_text(encoding="utf-8"))
    assert about["recipe"]["name"] == "small"


@pytest.mark.long
def test_a_bundled_recipe_is_tuned_within_its_budget() -> None:
    done = typed("digits", "--minutes", "0.75", "--seeds", "1", "--format", "html", "--output", "tuned.html")
    assert done.returncode == 0, done.stderr
    assert "Speed against memory" in Path("tuned.html").read_text(encoding="utf-8")
    file = Path("digits_tuned.py")
    assert "no file was written" in done.stderr or "find_recipe('digits', {})" in file.read_text(encoding="utf-8")


@pytest.mark.long
def test_a_recipe_whose_training_fails_is_told_and_nothing_is_written() -> None:
    Path("broken.py").write_text(PLANTED.replace("time.sleep(0.01)", "raise ValueError('tired')"), encoding="utf-8")
    done = typed("broken.py", "--minutes", "1", *STILL)
    assert done.returncode == 1
    assert "there is nothing to hold others against: ValueError: tired" in done.stderr
    assert not Path("planted_tuned.py").exists()


@pytest.mark.long
def test_data_that_raise_are_the_users_own_failure() -> None:
    Path("broken.py").write_text(
        PLANTED.replace("draws = torch", "raise OSError('no such disk')\n    draws = torch"), encoding="utf-8"
    )
    done = typed("broken.py")
    assert done.returncode == 1
    assert "OSError: no such disk" in done.stderr
    assert "src/trueloop" not in done.stderr


def test_an_interrupt_leaves_no_trial_behind() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "trueloop", "tune", "planted.py", *STILL],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("trueloop: tuning")
    until(lambda: _children(process.pid), "a trial has started")
    trials = _children(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    process.stderr.close()
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in trials), "no trial is left")


def _children(pid: int) -> list[int]:
    file = Path("/proc", str(pid), "task", str(pid), "children")
    return [int(word) for word in file.read_text().split()] if file.exists() else []


# -- words --


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Which recipe? Nothing was run: type `trueloop tune digits`"),
        (("digitz",), "There is no recipe 'digitz'. Did you mean digits?"),
        (("digits", "--objective", "speed"), "--objective cannot be 'speed'."),
        (("digits", "--objective", "throughputs"), "Did you mean throughput?"),
        (("digits", "--minutes", "soon"), "--minutes cannot be 'soon': expected a number of minutes"),
        (("digits", "--minutes", "0"), "--minutes cannot be '0'"),
        (("digits", "--seeds", "none"), "--seeds cannot be 'none'"),
        (("digits", "--allow", "lr"), "--allow cannot be 'lr'."),
        (("digits", "--format", "jsn"), "Did you mean json?"),
        (("digits", "--data", "nowhere"), "--data cannot be 'nowhere': there is no such folder"),
        (("digits", "--set", "learning_rate=1"), "Did you mean lr?"),
        (("digits", "--set", "precision=fp16"), "precision=fp16"),
        (("digits", "--write", "recipe.txt"), "use a name that ends in .py"),
        (("digits", "--write", "small.py"), "exists and was not written by trueloop"),
        (("digits", "--output", "report.py"), "would overwrite a Python file"),
        (("digits", "--mintues", "1"), "Did you mean --minutes?"),
        (("digits", "table.csv", "one too many"), "Unexpected argument 'one too many'"),
        (("digits", "table.csv"), "takes no TABLE"),
        (("nowhere.py",), "There is no file"),
    ],
)
def test_wrong_words_are_refused_in_a_sentence_and_nothing_is_run(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", *words]) == 4
    assert said in capsys.readouterr().err
    assert not Path("cache").exists()


def test_help_tells_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["tune", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for option in (
        "--objective",
        "--minutes",
        "--allow",
        "--set",
        "--data",
        "--seeds",
        "--format",
        "--output",
        "--fresh",
        "--write",
    ):
        assert option in shown


def test_asking_for_help_loads_no_torch() -> None:
    code = "import sys\nfrom trueloop.cli.main import main\ntry:\n    main(['tune', '--help'])\n"
    code += "except SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL, env=dict(os.environ)
    )
