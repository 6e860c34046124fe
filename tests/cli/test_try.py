"""`trueloop try` and `check --try` on real scripts: what the change did, and that the user's files stay as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trueloop.cli.main import main

SCRIPT = """\
import torch
from torch import nn

from rows import rows

torch.manual_seed(0)
x, y = rows()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(4):
    for i in range(0, 256, 16):
        optimizer.zero_grad()
        loss = loss_fn(model(x[i : i + 16]), y[i : i + 16])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
with open("written.txt", "a") as file:
    file.write("line")
with open("written.txt") as file:
    assert file.read() == "line"
"""
ROWS = """\
import torch


def rows():
    x = torch.randn(256, 8)
    return x, (x[:, 0] + x[:, 1] > 0).long()
"""
PATCH = """\
--- a/train.py
+++ b/train.py
@@ -8 +8 @@
-model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2), nn.Softmax(dim=1))
+model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "rows.py").write_text(ROWS, encoding="utf-8")
    (tmp_path / "fix.diff").write_text(PATCH, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unchanged(folder: Path) -> bool:
    files = {"train.py": SCRIPT, "rows.py": ROWS, "fix.diff": PATCH}
    return {f.name: f.read_text(encoding="utf-8") for f in folder.iterdir() if f.suffix in (".py", ".diff")} == files


def test_a_patch_is_tried(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", "--patch", "fix.diff", "--format", "json", "train.py"]) == 0
    printed = capsys.readouterr()
    result: dict[str, Any] = json.loads(printed.out)
    assert result["conclusion"] == "helps"
    assert "the change lowers the last loss from" in result["sentence"]
    assert {"LOS101"} == {each["code"] for each in result["findings"]["removed"]}
    assert [each["name"] for each in result["quantities"]] == [
        "first loss",
        "last loss",
        "gradient norm",
        "printed loss",
    ]
    assert "running with the change" in printed.err
    assert result["with_it"][0]["loaded"][-1].endswith("train.py")
    assert unchanged(folder)
    assert not (folder / "written.txt").exists()


@pytest.mark.long
def test_seeds_are_shifted_in_both_versions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change = "(x[:, 0] + x[:, 1] > 0) => (x[:, 1] + x[:, 0] > 0)"  # in rows.py: the same numbers
    words = ["--seeds", "2", "--steps", "12", "--quiet", "--output", "report.json"]
    assert main(["try", "--change", change, *words, "train.py"]) == 1
    assert capsys.readouterr() == ("", "")
    result: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert result["sentence"] == "the change has no effect: all losses and metrics are bit-identical"
    assert result["files"] == ["rows.py"]
    first = [run["first_loss"] for run in result["without"]]
    assert first[0] != first[1]
    assert [run["steps"] for run in result["without"]] == [12, 12]
    assert "0 to 1 was added to the seeds" in result["notes"][0]


def test_check_tries_the_fixes_that_it_can_write(folder: Path) -> None:
    command = [sys.executable, "-m", "trueloop", "check", "--try", "--quiet", "--fail-on", "never", "train.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=True)
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("fix of LOS101 softmax-before-cross-entropy: the change lowers the last loss from")
    assert last.endswith("LOS101 no longer reported")
    assert unchanged(folder)
    assert (folder / "written.txt").read_text(encoding="utf-8") == "line", "the checked run itself, once"


@pytest.mark.long
def test_a_script_that_fails_with_the_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", "--change", "nn.Linear(8, 32) => nn.Linear(9, 32)", "--steps", "12", "train.py"]) == 1
    printed = capsys.readouterr().out
    assert "With the change the script fails: RuntimeError: mat1 and mat2 shapes cannot be multiplied" in printed
    assert "The end of stderr with the change" in printed
    assert unchanged(folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["try"], "Which script?"),
        (["try", "train.py"], "Which change?"),
        (["try", "--patch", "fix.diff", "--change", "a => b", "train.py"], "Which change?"),
        (["try", "--patch", "no.diff", "train.py"], "--patch no.diff cannot be read"),
        (["try", "--patch", "rows.py", "train.py"], "The patch holds no change"),
        (["try", "--change", "Linear => X", "train.py"], "occurs 2 times in train.py (lines 8, 8)"),
        (["try", "--change", "a => b", "missing.py"], "There is no script missing.py"),
        (["try", "--seeds", "0", "train.py"], "--seeds cannot be '0'"),
        (["check", "--seeds", "3", "train.py"], "--seeds needs --try"),
        (["check", "--try", "--diff", "train.py"], "choose one"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_misuse(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 4
    assert said in capsys.readouterr().err
