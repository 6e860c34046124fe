"""The source of a run: only what run.json names, with findings and shares at their lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.ui.folders import make_run
from trueloop.report.editors import EDITORS
from trueloop.ui.library import Library
from trueloop.ui.page import Query
from trueloop.ui.pages import source

SCRIPT = "import torch\n\nloss.backward()\noptimizer.step()\n"


def page(folder: Path, run: str = "a", editor: str = "vscode") -> dict[str, Any]:
    library = Library(folder)
    library.editor = editor
    return source.data(library, Query([("run", run)]))


def checked(folder: Path, script: Path, **about: Any) -> Path:
    shown = {"kind": "check", "script": script.name, "path": str(script), "started": 4e9, **about}
    return make_run(folder, "a", [], **shown)


def finding(path: str, line: object = 3) -> dict[str, Any]:
    return {"code": "GRD101", "name": "gradients-never-cleared", "severity": "error", "path": path, "line": line}


def test_the_script_with_its_findings(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    run = checked(tmp_path / "runs", script)
    findings = [finding("train.py"), finding("../scripts/train.py"), finding("model.py"), finding("train.py", "3")]
    (run / "report.json").write_text(json.dumps({"findings": findings}))
    found = page(tmp_path / "runs")
    assert found["files"][0]["text"] == SCRIPT.rstrip("\n")
    assert found["files"][0]["path"] == str(script)
    assert [each["file"] for each in found["findings"]] == [0, 0, -1, -1]
    assert found["problems"] == []


def test_shares_of_a_profile(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run = checked(tmp_path / "runs", script)
    lines = [
        {"place": "train.py:3", "phase": "backward", "share": 0.5},
        {"place": "train.py:3", "phase": "python", "share": 0.25},
        {"place": "elsewhere.py:3", "phase": "backward", "share": 0.5},
        {"place": None, "share": "all"},
    ]
    (run / "profile.json").write_text(json.dumps({"machine": {}, "lines": lines}))
    assert page(tmp_path / "runs")["files"][0]["shares"] == [[3, 0.75, "backward"]]


def test_a_script_that_was_edited_later_says_so(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    checked(tmp_path / "runs", script, started=1.0)
    assert "edited after this run began" in page(tmp_path / "runs")["files"][0]["note"]


@pytest.mark.parametrize("name", ["passwd", "train.txt", "link.py", "pipe.py", "folder.py", "none.py"])
def test_nothing_but_a_python_file_is_read(tmp_path: Path, name: str) -> None:
    secret = "root:x:0:0"
    for plain in ("passwd", "train.txt"):
        (tmp_path / plain).write_text(secret)
    (tmp_path / "link.py").symlink_to(tmp_path / "passwd")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    checked(tmp_path / "runs", tmp_path / name)
    found = page(tmp_path / "runs")
    assert found["files"] == []
    assert len(found["problems"]) == 1
    assert secret not in json.dumps(found)


def test_a_huge_script_is_cut(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1\n" * 500_000)
    checked(tmp_path / "runs", script)
    (file,) = page(tmp_path / "runs")["files"]
    assert len(file["text"]) <= 1 << 20
    assert "Only the first" in file["note"]


@pytest.mark.parametrize("path", [7, None, ["train.py"], "", "\0.py", "a" * 10_000 + ".py"])
def test_a_path_that_is_no_path(tmp_path: Path, path: object) -> None:
    make_run(tmp_path, "a", [], path=path, code={"x": 5}, origin=["digits"])
    assert page(tmp_path)["files"] == []


def test_code_and_file_of_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("RECIPE = 1\n")
    code = {"mine.network": "def network():\n    return 1\n", "width": "64"}
    make_run(tmp_path / "runs", "a", [], origin={"recipe": "mine.py"}, code=code)
    make_run(tmp_path / "runs", "b", [], origin={"recipe": "digits"}, code={})
    assert [file["name"] for file in page(tmp_path / "runs")["files"]] == ["mine.py", "mine.network"]
    assert "def network" in page(tmp_path / "runs", "b")["files"][0]["text"]


def test_without_an_editor_no_path_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    checked(tmp_path / "runs", script)
    found = page(tmp_path / "runs", editor="none")
    assert found["editor"] == ""
    assert found["files"][0]["path"] == ""


def test_links_of_editors_are_allowed_by_the_page() -> None:
    code = (Path(source.__file__).parent.parent / "static" / "dom.js").read_text()
    for name, address in EDITORS.items():
        assert name == "none" or address.partition("://")[0] in code, name
