"""Runs as one file: everything in it, nothing from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.ui.folders import make_run, row
from trueloop.cli.main import main
from trueloop.errors import Misuse
from trueloop.ui.export_page import answers_of, export_page
from trueloop.ui.library import Library
from trueloop.ui.server import STATIC

HOSTILE = "</script><script>alert(1)</script>"


def test_one_run_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, "a", message=HOSTILE)
    file = tmp_path / "page.html"
    assert main(["ui", "--export", str(file), str(run)]) == 0
    assert "1 run, " in capsys.readouterr().out
    text = file.read_text()
    assert HOSTILE not in text
    (kept,) = re.findall(r'<script type="application/json" id="trueloop-data">(.*?)</script>', text, re.DOTALL)
    answers = json.loads(kept)
    assert answers["pages?"]["only"] == "a"
    assert {"run?run=a", "curves?run=a&x=step", "source?run=a", "ship?run=a", "learn?rule=GRD101"} <= set(answers)
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="(?!#)', text.partition("<script>")[0])
    for module in STATIC.rglob("*.js"):
        assert f'"ui/{module.relative_to(STATIC).as_posix()}"' in text


def test_several_runs_are_compared(tmp_path: Path) -> None:
    for name in ("a", "b", "c d"):
        make_run(tmp_path, name, [row(1), row(2, kind="valid")])
    answers = answers_of(Library(tmp_path), ["a", "b", "c d"])
    assert [each["name"] for each in answers["runs?"]["runs"]] == ["a", "b", "c d"]
    for runs in ("run=a&run=b&run=c%20d", "run=a&run=b", "run=b&run=c%20d"):
        assert f"compare?{runs}" in answers
        assert f"bands?{runs}&series=train%2Floss&x=step" in answers


def test_a_damaged_run_is_exported_with_its_message(tmp_path: Path) -> None:
    (make_run(tmp_path, "a") / "run.json").write_text("{")
    answers = answers_of(Library(tmp_path), ["a"])
    assert "damaged" in answers["source?run=a"]["error"]


def test_runs_of_two_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="of one folder"):
        export_page([make_run(tmp_path / "x", "a"), make_run(tmp_path / "y", "b")])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--export", "page.html"], "Which runs?"),
        (["--export", "page.txt", "a"], "ends in .html"),
        (["--export", "page.html", "none"], "There is no run 'none'"),
        (["a", "b"], "Name one folder of runs"),
        (["--editor", "vscod", "."], "Did you mean vscode?"),
    ],
)
def test_wrong_arguments(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ui", *words]) != 0
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
