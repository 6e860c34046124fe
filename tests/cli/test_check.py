"""`trueloop check` and `trueloop recheck`, from the command to the exit code, on a script that really trains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_child
from trueloop.cli.main import main

LOOP = """\
import subprocess
import sys

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
for step in range(6):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print("trained", sys.argv[1:], flush=True)
subprocess.run(["echo", "a child speaks"], check=True)
print("a warning", file=sys.stderr)
"""
HEALTHY = LOOP.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")
SPOKEN = "trained []\na child speaks\n"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def trueloop(folder: Path, *words: str) -> Ended:
    """The command in a forked child (torch is loaded already), with its own stdout and stderr."""
    out, err = folder / "stdout.txt", folder / "stderr.txt"

    def work() -> int:
        os.chdir(folder)
        for number, file in ((1, out), (2, err)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
        sys.excepthook = sys.__excepthook__  # a process group of an earlier test leaves its own
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        return int(code)

    code: int = in_child(work)
    return Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "healthy.py").write_text(HEALTHY, encoding="utf-8")
    return tmp_path


SELECT = ("--select", "gradients-never-cleared")


# -- text --


def test_the_report_goes_to_stderr_and_the_scripts_stdout_is_its_own(folder: Path) -> None:
    ended = trueloop(folder, "check", *SELECT, "train.py", "--epochs", "1")
    assert ended.code == 1
    assert ended.out == "trained ['--epochs', '1']\na child speaks\n"
    at_once, rest = ended.err.split("a warning\n")
    line = "trueloop: GRD101 gradients-never-cleared at train.py:12, step 1; the report follows at the end\n"
    assert at_once == line
    assert rest.startswith("✗ error GRD101 gradients-never-cleared  train.py:12\n")
    assert rest.count("GRD101") == 2  # the finding, once, and `trueloop explain GRD101`
    found, last = rest.splitlines()[-2:]
    assert found == "✗ 1 error in 6 steps of Linear and 6 batches"
    assert last.startswith("1 of 1 rule applied; checking added ")


def test_nothing_found_is_two_lines(folder: Path) -> None:
    ended = trueloop(folder, "check", "healthy.py")
    assert (ended.code, ended.out) == (0, SPOKEN)
    warning, line, last = ended.err.splitlines()
    assert warning == "a warning"
    assert line.startswith("✓ nothing found in 6 steps of Linear and 6 batches")
    assert " rules applied; checking added " in last


@pytest.mark.parametrize(("fail_on", "code"), [("error", 1), ("advice", 1), ("never", 0)])
def test_fail_on_decides_the_exit_code(folder: Path, fail_on: str, code: int) -> None:
    assert trueloop(folder, "check", *SELECT, "--fail-on", fail_on, "train.py").code == code


def test_settings_and_comments_are_heard(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.trueloop]\nselect = ["GRD101"]\nseverity = { GRD101 = "warning" }\n')
    ended = trueloop(folder, "check", "train.py")
    assert ended.code == 0
    assert "! warning GRD101" in ended.err
    (folder / "train.py").write_text(
        LOOP.replace("backward()", "backward()  # trueloop: allow[gradients-never-cleared]")
    )
    ended = trueloop(folder, "check", *SELECT, "--fail-on", "advice", "train.py")
    assert ended.code == 0
    assert "1 finding allowed" in ended.err


def test_a_run_can_be_cut_short_by_steps_and_by_the_first_error(folder: Path) -> None:
    steps = trueloop(folder, "check", *SELECT, "--fail-on", "never", "--steps", "3", "train.py")
    assert steps.code == 0
    assert "The run was ended early, as requested." in steps.err
    assert "in 3 steps" in steps.err
    fast = trueloop(folder, "check", *SELECT, "--fail-fast", "train.py")
    assert fast.code == 1
    assert fast.out == ""
    assert "in 2 steps" in fast.err


def test_a_module_is_run_by_its_name(folder: Path) -> None:
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(LOOP)
    ended = trueloop(folder, "check", *SELECT, "-m", "package.train", "--lr", "1")
    assert ended.code == 1
    assert ended.out.startswith("trained ['--lr', '1']\n")
    assert os.path.join("package", "train.py") + ":12" in ended.err


def test_the_scripts_own_failure_is_passed_through_and_told_apart(folder: Path) -> None:
    (folder / "train.py").write_text(LOOP + "raise ValueError('my own')\n")
    ended = trueloop(folder, "check", *SELECT, "train.py")
    assert ended.code == 1
    assert "ValueError: my own\n" in ended.err
    assert "The script itself failed: ValueError: my own. Exit code 1 is the script's own." in ended.err
    (folder / "train.py").write_text(LOOP + "sys.exit(17)\n")
    ended = trueloop(folder, "check", *SELECT, "--format", "json", "train.py")
    assert ended.code == 17
    assert json.loads(ended.out)["script"]["exit_code"] == 17


def test_a_script_that_goes_elsewhere_is_still_shown_from_here(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "train.py").write_text("import os\nos.chdir('sub')\n" + LOOP)
    ended = trueloop(folder, "check", *SELECT, "--format", "json", "--output", "report.json", "train.py")
    assert ended.code == 1
    (finding,) = json.loads((folder / "report.json").read_text())["findings"]
    assert finding["path"] == "train.py"
    assert finding["diff"].startswith("--- train.py\n+++ train.py\n")


# -- documents --


def document(ended: Ended) -> Any:
    return json.loads(ended.out)


def test_a_document_is_alone_on_stdout(folder: Path) -> None:
    ended = trueloop(folder, "check", *SELECT, "--format", "json", "train.py")
    assert ended.code == 1
    assert [finding["line"] for finding in document(ended)["findings"]] == [12]
    assert sorted(ended.err.splitlines()) == ["a child speaks", "a warning", "trained []"]


@pytest.mark.parametrize("format", ["text", "json", "sarif", "github", "html", "markdown", "agent"])
def test_an_output_file_holds_the_document_and_leaves_the_scripts_output_alone(folder: Path, format: str) -> None:
    ended = trueloop(folder, "check", *SELECT, "--format", format, "--output", "report", "train.py")
    assert (ended.code, ended.out, ended.err) == (1, SPOKEN, "a warning\n")
    assert "gradients-never-cleared" in (folder / "report").read_text(encoding="utf-8")


def test_diff_prints_only_a_patch_that_applies_and_mends_the_script(folder: Path) -> None:
    ended = trueloop(folder, "check", *SELECT, "--diff", "train.py")
    assert ended.code == 1
    subprocess.run(["patch", "-p0"], input=ended.out, text=True, check=True, cwd=folder, capture_output=True)
    assert (folder / "train.py").read_text(encoding="utf-8") == HEALTHY
    assert "trueloop: 1 finding of 1 can be patched." in ended.err
    again = trueloop(folder, "check", *SELECT, "--diff", "train.py")
    assert (again.code, again.out) == (0, "")


def test_what_is_printed_at_the_very_end_does_not_spoil_the_document(folder: Path) -> None:
    (folder / "train.py").write_text("import atexit\natexit.register(print, 'late')\nprint('early')\n")
    command = [sys.executable, "-m", "trueloop", "check", "--format", "json", "train.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(ended.stdout)["findings"] == []
    assert ended.stderr == "early\nlate\n"


# -- recorded runs --


def test_a_recorded_run_is_judged_again_with_the_same_findings(folder: Path) -> None:
    first = trueloop(folder, "check", *SELECT, "--record", "run", "--format", "json", "train.py")
    again = trueloop(folder, "recheck", "run", *SELECT, "--format", "json")
    assert again.code == first.code == 1
    assert document(again)["findings"] == document(first)["findings"]
    same = ("script", "steps", "backwards", "batches", "epochs", "models", "optimizers", "rules")
    assert {key: document(again)["watched"][key] for key in same} == {
        key: document(first)["watched"][key] for key in same
    }
    told = trueloop(folder, "recheck", "run", *SELECT, "--fail-on", "never")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("✗ error GRD101")
    assert trueloop(folder, "check", "--record", "run", "train.py").code == 4, "a recorded run is never written over"


def test_a_killed_run_is_judged_as_far_as_it_was_recorded(folder: Path) -> None:
    trueloop(folder, "check", *SELECT, "--record", "run", "train.py")
    events = folder / "run" / "events.jsonl"
    lines = events.read_text(encoding="utf-8").splitlines(keepends=True)
    events.write_text("".join(lines[:-1]) + lines[-1][:10], encoding="utf-8")
    (folder / "run" / "run.json").unlink()
    ended = trueloop(folder, "recheck", "run", *SELECT)
    assert ended.code == 1
    assert "The run was interrupted (the recording breaks off)" in ended.out
    assert "in 6 steps" in ended.out


def test_the_exit_code_of_a_judged_run_is_not_the_recorded_scripts(folder: Path) -> None:
    (folder / "healthy.py").write_text(HEALTHY + "raise ValueError('my own')\n")
    assert trueloop(folder, "check", *SELECT, "--record", "run", "healthy.py").code == 1
    ended = trueloop(folder, "recheck", "run", *SELECT)
    assert ended.code == 0
    assert "The script itself failed: ValueError: my own." in ended.out


# -- quiet and verbose --


def test_quiet_prints_nothing_when_all_is_well_and_findings_when_not(folder: Path) -> None:
    ended = trueloop(folder, "check", "--quiet", "healthy.py")
    assert (ended.code, ended.out, ended.err) == (0, SPOKEN, "a warning\n")
    ended = trueloop(folder, "check", *SELECT, "--quiet", "train.py")
    assert ended.code == 1
    script, report = ended.err.split("\n", 1)
    assert script == "a warning", "no announcement while it runs"
    assert report.startswith("✗ error GRD101 gradients-never-cleared")
    trueloop(folder, "check", "--record", "run", "healthy.py")
    ended = trueloop(folder, "recheck", "run", "--quiet")
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_a_script_that_fails_is_reported_with_quiet_too(folder: Path) -> None:
    (folder / "healthy.py").write_text(HEALTHY + "raise ValueError('my own')\n")
    ended = trueloop(folder, "check", "--quiet", "healthy.py")
    assert ended.code == 1
    assert "The script itself failed: ValueError: my own." in ended.err


def test_several_outputs_take_their_format_from_their_suffix(folder: Path) -> None:
    outputs = ("--output", "report.json", "--output", "report.html", "--output", "report.md", "--output", "report.txt")
    ended = trueloop(folder, "check", *SELECT, *outputs, "train.py")
    assert (ended.code, ended.out, ended.err) == (1, SPOKEN, "a warning\n")
    assert json.loads((folder / "report.json").read_text())["findings"]
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert (folder / "report.md").read_text().startswith("#")
    assert "GRD101" in (folder / "report.txt").read_text()
