"""`trueloop fix`: the fixes are in the files, the script runs again, and what is gone is reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_check import HEALTHY, LOOP, trueloop
from tests.cli.test_words import refused
from tests.conftest import in_child
from trueloop.cli import fix as verb
from trueloop.cli.main import main
from trueloop.rules.catalogue import all_rules

ONLY = ("--select", "gradients-never-cleared,evaluation-without-no-grad")
EVALUATING = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def validate():
    model.eval()
    total = 0.0
    for inputs, targets in zip(x.split(8), y.split(8)):
        total += nn.functional.mse_loss(model(inputs), targets).item()
    return total


for epoch in range(2):
    model.train()
    for inputs, targets in zip(x.split(16), y.split(16)):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    print(validate())
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _checks_in_forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `start_check`, without importing torch again; one long test starts real processes."""

    def start(words: list[str]) -> int:
        def work() -> int:
            os.dup2(2, 1)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            try:
                code = main(["check", *words])
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            sys.stdout.flush()
            return int(code)

        code: int = in_child(work)
        return code

    monkeypatch.setattr(verb, "start_check", start)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    return tmp_path


def test_a_fix_that_changes_the_result_needs_unsafe(folder: Path) -> None:
    ended = trueloop(folder, "fix", *ONLY, "train.py")
    assert (ended.code, ended.out) == (1, "")
    assert "1 finding left; 1 with a fix that changes the result of the training: add --unsafe." in ended.err
    assert (folder / "train.py").read_text() == LOOP


def test_the_fix_is_written_and_the_finding_is_gone(folder: Path) -> None:
    os.chmod(folder / "train.py", 0o755)
    ended = trueloop(folder, "fix", "--unsafe", *ONLY, "train.py", "--epochs", "1")
    assert ended.code == 0
    assert (folder / "train.py").read_text() == HEALTHY
    assert (folder / "train.py").stat().st_mode & 0o777 == 0o755
    assert ended.out.startswith("--- train.py\n+++ train.py\n")
    assert "\n+    optimizer.zero_grad()\n" in ended.out
    assert ended.out.endswith("✓ GRD101 gradients-never-cleared  train.py:12: gone\n")
    assert ended.err.count("trained ['--epochs', '1']") == 2, "its arguments are the same in both runs"
    assert ended.err.endswith("trueloop: nothing found; nothing to fix.\n")
    assert sorted(file.name for file in folder.iterdir()) == ["stderr.txt", "stdout.txt", "train.py"], "no run folder"


def test_a_safe_fix_leaves_every_number_as_it_was(folder: Path) -> None:
    (folder / "train.py").write_text(EVALUATING)
    ended = trueloop(folder, "fix", *ONLY, "train.py")
    assert ended.code == 0
    assert "+@torch.no_grad()" in ended.out
    assert "✓ MOD103 evaluation-without-no-grad" in ended.out
    numbers = [line for line in ended.err.splitlines() if line.removeprefix("-")[:1].isdecimal()]
    assert numbers
    assert numbers[: len(numbers) // 2] == numbers[len(numbers) // 2 :]


def test_diff_writes_nothing(folder: Path) -> None:
    ended = trueloop(folder, "fix", "--unsafe", "--diff", *ONLY, "train.py")
    assert ended.code == 1
    assert "\n+    optimizer.zero_grad()\n" in ended.out
    assert (folder / "train.py").read_text() == LOOP
    assert ended.err.count("trained []") == 1
    assert ended.err.endswith("trueloop: 1 finding of 1 can be fixed.\n")


@pytest.mark.parametrize("script", [["train.py"], ["-m", "train"]])
def test_an_option_of_ours_after_the_script_is_refused(
    script: list[str], folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fix --unsafe train.py --diff` is meant as a dry run; it would write the file."""
    monkeypatch.chdir(folder)
    name = " ".join(script)
    why = refused(capsys, "fix", "--unsafe", *script, "--epochs", "1", "--diff")
    assert f"--diff is an option of trueloop and comes after {script[-1]}. Nothing was run" in why
    assert f"type `trueloop fix --unsafe --diff {name} --epochs 1`" in why
    assert f"or `trueloop fix --unsafe -- {name} --epochs 1 --diff` if --diff is an option of the script." in why
    assert (folder / "train.py").read_text() == LOOP


@pytest.mark.parametrize("script", [["train.py"], ["-m", "train"]])
def test_after_two_dashes_the_option_is_the_script_s(script: list[str], folder: Path) -> None:
    ended = trueloop(folder, "fix", "--unsafe", *ONLY, "--", *script, "--diff")
    assert ended.code == 0
    assert ended.err.count("trained ['--diff']") == 2, "both runs get it"
    assert "comes after" not in ended.err
    assert (folder / "train.py").read_text() == HEALTHY


def test_the_outcome_as_a_document(folder: Path) -> None:
    outputs = ["--output", "fixes.json", "--output", "fixes.md", "--output", "fixes.txt"]
    ended = trueloop(folder, "fix", "--unsafe", "--quiet", *ONLY, *outputs, "train.py")
    assert (ended.code, ended.out) == (0, "")
    assert "checking" not in ended.err
    read = json.loads((folder / "fixes.json").read_text())
    [fixed] = read["fixes"]
    assert (fixed["code"], fixed["path"], fixed["state"]) == ("GRD101", "train.py", "gone")
    assert (read["new"], read["remark"]) == ([], "nothing found; nothing to fix")
    assert "\n+    optimizer.zero_grad()\n" in read["diff"]
    assert "```diff\n--- train.py\n" in (folder / "fixes.md").read_text()
    text = (folder / "fixes.txt").read_text()
    assert text.startswith("--- train.py\n")
    assert text.endswith("✓ GRD101 gradients-never-cleared  train.py:12: gone\nnothing found; nothing to fix.\n")


def test_a_dry_run_as_json_proposes(folder: Path) -> None:
    ended = trueloop(folder, "fix", "--unsafe", "--diff", "--format", "json", *ONLY, "train.py")
    assert ended.code == 1
    assert [each["state"] for each in json.loads(ended.out)["fixes"]] == ["proposed"]
    assert (folder / "train.py").read_text() == LOOP


def test_a_script_without_findings_runs_once(folder: Path) -> None:
    (folder / "train.py").write_text(HEALTHY)
    ended = trueloop(folder, "fix", *ONLY, "train.py")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.count("trained []") == 1
    assert ended.err.endswith("trueloop: nothing found; nothing to fix.\n")


def test_files_are_put_back_if_the_script_fails_with_the_fix(folder: Path) -> None:
    picky = LOOP.replace("import torch\n", "import torch\nassert 'zero_grad()' not in open(__file__).read()[99:]\n")
    (folder / "train.py").write_text(picky)
    ended = trueloop(folder, "fix", "--unsafe", *ONLY, "train.py")
    assert ended.code == 1
    assert "the script fails with the fixes (AssertionError" in ended.err
    assert "put back as before" in ended.err
    assert (folder / "train.py").read_text() == picky


def test_known_findings_are_fixed_too(folder: Path) -> None:
    trueloop(folder, "check", *ONLY, "--no-run", "--write-baseline", "findings.json", "train.py")
    (folder / "pyproject.toml").write_text('[tool.trueloop]\nbaseline = "findings.json"\nformat = "sarif"\n')
    assert trueloop(folder, "fix", "--unsafe", *ONLY, "train.py").code == 0
    assert (folder / "train.py").read_text() == HEALTHY


def test_a_file_that_the_script_changes_itself_is_not_overwritten(folder: Path) -> None:
    (folder / "train.py").write_text(LOOP + "open(__file__, 'a').write('# once more\\n')\n")
    ended = trueloop(folder, "fix", "--unsafe", *ONLY, "train.py")
    text = (folder / "train.py").read_text()
    if ended.code == 5:
        assert "train.py could not be written (it has changed meanwhile)" in ended.err
        assert "zero_grad" not in text
    else:
        assert text.count("# once more\n") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothere.py"], "nothere.py"),
        ([], "Which script?"),
        (["-m", "nothere"], "nothere"),
        (["--unsfe", "train.py"], "There is no option --unsfe. Did you mean --unsafe?"),
        (["--select", "GRD1O1", "train.py"], "Unknown rule 'GRD1O1'"),
        (["book.ipynb"], "Fixes of a notebook cannot be written"),
    ],
)
def test_misuse_is_exactly_one_line(
    words: list[str], said: str, folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "book.ipynb").write_text('{"cells": [{"cell_type": "code", "source": "x = 1"}]}')
    assert said in refused(capsys, "fix", *words)


def test_few_fixes_keep_the_result() -> None:
    """The list is short on purpose: a fix that is safe by mistake changes somebody's training unasked."""
    assert {rule.name for rule in all_rules() if rule.fix_keeps_result} == {
        "evaluation-without-no-grad", "every-rank-saves", "graph-never-freed", "memory-not-pinned",
        "timed-without-synchronize", "unsafe-load",
    }  # fmt: skip


@pytest.mark.long
def test_fix_in_real_processes(folder: Path) -> None:
    command = [sys.executable, "-m", "trueloop", "fix", "--unsafe", *ONLY, "train.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (folder / "train.py").read_text() == HEALTHY
    assert ended.stdout.endswith(": gone\n")
