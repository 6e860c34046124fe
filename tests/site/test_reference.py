"""The reference is that of the code, and its examples run."""

from __future__ import annotations

import inspect
import os
import re
import runpy
from pathlib import Path

import pytest

import trueloop
from tests.conftest import in_child
from tests.site import cli_page, llms_page, python_page
from trueloop.cli.main import VERBS

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"
EXAMPLES = sorted((REFERENCE / "examples").glob("*.py"))


def test_the_page_of_commands_is_current() -> None:
    written = cli_page.PAGE.read_text(encoding="utf-8")
    assert written == cli_page.page(), "docs/reference/cli.md is older than the parsers: run `make docs`"
    assert [verb for verb in VERBS if f"\n### {verb}\n" not in written] == []


def test_the_page_of_python_names_is_current() -> None:
    written = python_page.PAGE.read_text(encoding="utf-8")
    assert written == python_page.page(), "docs/reference/python.md is older than the source: run `make docs`"


def test_every_public_name_has_a_docstring_and_an_example_that_uses_it() -> None:
    assert [name for name in trueloop.__all__ if not inspect.getdoc(getattr(trueloop, name))] == []
    for name in trueloop.__all__:
        file = python_page.example_of(name)
        assert file.is_file(), f"write {file.relative_to(ROOT)}, then run `make docs`"
        assert re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")), f"{file.name} does not use {name}"
    assert {file.stem for file in EXAMPLES} == {name.lower() for name in trueloop.__all__}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs(file: Path, tmp_path: Path) -> None:
    def work() -> None:
        os.chdir(tmp_path)
        runpy.run_path(str(file), run_name="__main__")

    in_child(work)


def test_every_variable_of_trueloop_is_on_its_page() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"\bTRUELOOP_[A-Z_]+\b", source)) - {"TRUELOOP_FAILED"}  # an exit code
    written = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\bTRUELOOP_[A-Z_]+\b", written)) == names, "docs/reference/environment.md lists them all"


def test_every_file_of_a_run_is_on_the_page_of_files(tmp_path: Path) -> None:
    def work() -> list[str]:
        os.chdir(tmp_path)
        folder = runpy.run_path(str(REFERENCE / "examples" / "train.py"))["trained"].folder
        checkpoint = next((folder / "checkpoints").glob("step-*"))
        return [file.name for file in folder.iterdir()] + [file.name for file in checkpoint.iterdir()]

    written = (REFERENCE / "files.md").read_text(encoding="utf-8")
    files: list[str] = in_child(work)
    assert "metrics.jsonl" in files
    assert [name for name in files if name not in written] == []


def test_the_list_for_language_models_is_current() -> None:
    assert llms_page.PAGE.read_text(encoding="utf-8") == llms_page.page(), "docs/llms.txt is old: run `make docs`"
