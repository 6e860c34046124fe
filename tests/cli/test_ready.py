"""`trueloop ready`: words, formats, exit codes; and that a run is judged without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readiness.made import ABOUT, changed, made
from trueloop.cli.main import main
from trueloop.results.check import ExitCode

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_verdict_and_what_stands_in_the_way(tmp_path: Path, capsys: Captured) -> None:
    made(tmp_path)
    assert main(["ready", "runs/mine"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].startswith("! runs/mine: ready with risks; ")
    assert "trueloop train mine.py --set lr=0.1 --set seed=1" in printed.out
    assert "class 1 has the most" not in printed.out  # what is good stands in the note
    assert printed.err == "written to runs/mine/training-readiness.md and runs/mine/training-readiness.html\n"
    assert "class 1 has the most" in Path("runs/mine/training-readiness.md").read_text(encoding="utf-8")


def test_a_run_goes_by_its_name_too_and_options_may_follow_it(tmp_path: Path, capsys: Captured) -> None:
    made(tmp_path)
    assert main(["ready", "mine", "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert (read["version"], read["subject"], read["verdict"]) == (1, "runs/mine", "ready with risks")
    assert {"section", "status", "text", "links", "shown", "command"} <= read["statements"][0].keys()


@pytest.mark.parametrize("name", ["markdown", "html", "json"])
def test_a_document_stands_alone_on_stdout(name: str, tmp_path: Path, capsys: Captured) -> None:
    made(tmp_path)
    assert main(["ready", "--format", name, "runs/mine"]) == 0
    printed = capsys.readouterr()
    assert "ready with risks" in printed.out
    assert printed.err == ""


def test_fail_under(tmp_path: Path, capsys: Captured) -> None:
    made(tmp_path)
    assert main(["ready", "--fail-on", "error", "runs/mine"]) == ExitCode.CLEAN
    assert main(["ready", "--fail-on", "warning", "runs/mine"]) == ExitCode.FINDINGS
    made(tmp_path, "bad", run=changed("run.json", name="bad", status="failed"))
    assert main(["ready", "runs/bad"]) == ExitCode.CLEAN
    assert main(["ready", "--fail-on", "error", "runs/bad"]) == ExitCode.FINDINGS
    twin = {**ABOUT["recipe"], "seed": 1}
    made(tmp_path, "twin", run={**ABOUT, "name": "twin", "started": 1.0, "recipe": twin, "best": 0.89})
    assert main(["ready", "--fail-on", "warning", "runs/mine"]) == ExitCode.CLEAN


def test_a_baseline_by_name(tmp_path: Path, capsys: Captured) -> None:
    made(tmp_path)
    made(tmp_path, "other", run={**ABOUT, "name": "other", "started": 5000.0, "best": 0.95})
    assert main(["ready", "--baseline", "other", "--format", "markdown", "mine"]) == 0
    assert "and 0.95 of the last good run, other" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Which run?"),
        (["runs/nobody"], "There is no run 'runs/nobody'"),
        (["no.py"], "There is no file no.py"),
        (["--format", "jsn", "runs/mine"], "Did you mean json?"),
        (["--fail-on", "warnin", "runs/mine"], "Did you mean warning?"),
        (["--steps", "0", "train.py"], "--steps cannot be '0'"),
        (["runs/mine", "more"], "Unexpected argument 'more'"),
        (["--fast", "runs/mine"], "There is no option --fast"),
    ],
)
def test_refusals_teach(words: list[str], said: str, tmp_path: Path, capsys: Captured) -> None:
    made(tmp_path)
    assert main(["ready", *words]) == ExitCode.MISUSE
    assert said in capsys.readouterr().err
    assert not Path("runs/mine/training-readiness.md").exists()


def test_a_damaged_file_is_named(tmp_path: Path, capsys: Captured) -> None:
    (made(tmp_path) / "facts.json").write_text("{", encoding="utf-8")
    assert main(["ready", "runs/mine"]) == ExitCode.MISUSE
    assert "facts.json cannot be read" in capsys.readouterr().err


def test_a_note_that_cannot_be_written_is_said(tmp_path: Path, capsys: Captured) -> None:
    (made(tmp_path) / "training-readiness.md").mkdir()
    assert main(["ready", "runs/mine"]) == 5
    assert "training-readiness.md could not be written" in capsys.readouterr().err


def test_of_a_run_no_torch_is_loaded(tmp_path: Path) -> None:
    made(tmp_path)
    code = (
        "import sys; from trueloop.cli.main import main; assert main(['ready', 'runs/mine']) == 0; "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert Path("runs/mine/training-readiness.html").is_file()
