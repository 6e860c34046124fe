"""The GitHub Action and the pre-commit hook, as far as they can run here: the shell step on a stub and for real."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from trueloop.cli.check import parser

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
CHECK = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "check")
STUB = """#!/bin/sh
printf '%s\\n' "$@" > words.txt
while [ $# -gt 0 ]; do [ "$1" = --output ] && echo report > "$2"; shift; done
exit ${STUB_CODE:-0}
"""


def run_check(folder: Path, path: Path | None = None, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The step of the action in a shell, with its inputs as GitHub would pass them."""
    values = {name: about.get("default", "") for name, about in ACTION["inputs"].items()} | inputs
    names = {key: text.removeprefix("${{ inputs.").removesuffix(" }}") for key, text in CHECK["env"].items()}
    environment = {**os.environ, **{key: values[name] for key, name in names.items()}}
    environment |= {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", CHECK["run"]]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").write_text(STUB)
    (folder / "python").chmod(0o755)
    return folder


def test_every_input_is_described_and_used() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name, about in ACTION["inputs"].items():
        assert about["description"].endswith("."), name
        assert f"inputs.{name} " in text, f"{name} is not used"
    assert "${{" not in CHECK["run"], "text of an input would be executed"


def test_the_step_calls_check_with_the_inputs(tmp_path: Path, stub: Path) -> None:
    ended = run_check(tmp_path, stub, script="my train.py", arguments="--epochs 1", baseline="known.json")
    assert ended.returncode == 0, ended.stderr
    words = (tmp_path / "words.txt").read_text().splitlines()
    assert words[:3] == ["-m", "trueloop", "check"]
    own = words[3 : words.index("--")]
    assert words[words.index("--") + 1 :] == ["my train.py", "--epochs", "1"]
    options, target = parser().split(words[3:])
    assert (options.steps, str(options.baseline), options.changed) == (200, "known.json", None)
    assert options.output[0] == "trueloop.sarif"
    assert target == ["my train.py", "--epochs", "1"]
    assert "--changed" not in " ".join(own)
    assert (tmp_path / "output").read_text() == "sarif=trueloop.sarif\nexit-code=0\n"
    assert (tmp_path / "summary").read_text() == "report\n"


def test_the_exit_code_of_check_is_that_of_the_step(
    tmp_path: Path, stub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUB_CODE", "1")
    ended = run_check(tmp_path, stub, script="train.py", changed="origin/main", options="--select GRD")
    assert ended.returncode == 1
    words = (tmp_path / "words.txt").read_text().splitlines()
    assert "--changed=origin/main" in words
    assert words[3:5] == ["--select", "GRD"]
    assert (tmp_path / "output").read_text().endswith("exit-code=1\n"), "written before it fails"


def test_an_input_is_never_executed(tmp_path: Path, stub: Path) -> None:
    nasty = "$(touch owned).py"
    assert run_check(tmp_path, stub, script=nasty, arguments="; touch owned `touch owned`").returncode == 0
    assert not (tmp_path / "owned").exists()
    assert nasty in (tmp_path / "words.txt").read_text().splitlines()


def test_the_hook_is_a_command_of_check() -> None:
    words = shlex.split(HOOK["entry"])
    assert words[:2] == ["trueloop", "check"]
    options, target = parser().split([*words[2:], "--steps", "20", "train.py", "--epochs", "1"])
    assert (options.changed, options.quiet, options.steps) == ("HEAD", True, 20)
    assert target == ["train.py", "--epochs", "1"]
    assert HOOK["pass_filenames"] is False


@pytest.mark.long
def test_the_step_finds_the_bugs_of_the_broken_example(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (folder / "python").chmod(0o755)
    shutil.copy(ROOT / "examples" / "broken_training.py", tmp_path)
    ended = run_check(tmp_path, folder, script="broken_training.py")
    assert ended.returncode == 1, ended.stderr
    results = json.loads((tmp_path / "trueloop.sarif").read_text())["runs"][0]["results"]
    assert len(results) >= 5
    assert "GRD101" in (tmp_path / "summary").read_text()


@pytest.mark.long
def test_pre_commit_accepts_the_hook(tmp_path: Path) -> None:
    program = shutil.which("pre-commit")
    if program is None:
        pytest.skip("pre-commit is not installed: `pip install pre-commit`")
    done = subprocess.run(
        [program, "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
