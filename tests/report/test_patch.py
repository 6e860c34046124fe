"""The patch of all fixes: `patch -p0` applies it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.verdicts import CLEAN, CRASH, with_diffs
from trueloop.report.patch import remark, render
from trueloop.usercode.source import Edit, diff

LINES = [f"line{i} = {i}" for i in range(1, 21)]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    file.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return file


def edited(file: Path, first: int, last: int, *lines: str) -> str:
    return diff(str(file), [Edit(first, last, lines)])


def apply(patch: str) -> None:
    subprocess.run(["patch", "-p0"], input=patch, text=True, check=True, capture_output=True)


def test_edits_near_one_another_are_gathered_into_one_patch_that_applies(file: Path) -> None:
    verdict = with_diffs(
        edited(file, 4, 3, "new = 1"),
        edited(file, 6, 6, "six = 6"),
        edited(file, 17, 18),
        edited(file, 8, 7, "a = 1", "b = 2"),
    )
    apply(render(verdict))
    expected = [*LINES[:3], "new = 1", *LINES[3:5], "six = 6", LINES[6], "a = 1", "b = 2", *LINES[7:16], *LINES[18:]]
    assert file.read_text(encoding="utf-8").splitlines() == expected
    assert remark(verdict) == "4 findings of 4 can be patched"


def test_the_same_edit_twice_is_made_once(file: Path) -> None:
    once = edited(file, 4, 3, "new = 1")
    apply(render(with_diffs(once, once)))
    assert file.read_text(encoding="utf-8").count("new = 1") == 1


@pytest.mark.parametrize("second", [(5, 5), (4, 6)])
def test_of_two_edits_to_the_same_lines_the_first_is_taken(file: Path, second: tuple[int, int]) -> None:
    verdict = with_diffs(edited(file, 5, 5, "first = 1"), edited(file, *second, "second = 1"), "")
    apply(render(verdict))
    text = file.read_text(encoding="utf-8")
    assert "first = 1" in text
    assert "second = 1" not in text
    assert remark(verdict).startswith("1 finding of 3 can be patched; 1 more patch would touch the same lines")


def test_what_is_written_beside_the_lines_of_another_edit_is_kept(file: Path) -> None:
    verdict = with_diffs(
        edited(file, 5, 5, "five = 5"), edited(file, 5, 4, "before = 1"), edited(file, 6, 5, "after = 1")
    )
    apply(render(verdict))
    assert file.read_text(encoding="utf-8").splitlines()[3:8] == [
        LINES[3],
        "before = 1",
        "five = 5",
        "after = 1",
        LINES[5],
    ]


def test_two_insertions_at_one_spot_wait_for_one_another(file: Path) -> None:
    verdict = with_diffs(edited(file, 5, 4, "one = 1"), edited(file, 5, 4, "two = 2"))
    assert "two = 2" not in render(verdict)
    assert "1 more patch" in remark(verdict)


def test_two_files_and_a_file_without_a_last_newline(file: Path) -> None:
    other = file.parent / "net.py"
    other.write_text("a = 1\nb = 2", encoding="utf-8")
    apply(render(with_diffs(edited(file, 1, 1, "one = 1"), edited(other, 1, 1, "a = 2"))))
    assert other.read_text(encoding="utf-8") == "a = 2\nb = 2"
    assert file.read_text(encoding="utf-8").startswith("one = 1\nline2")


def test_the_crash_is_mended_first(file: Path) -> None:
    crash = replace(CRASH, diff=edited(file, 5, 5, "crash = 1"))
    verdict = replace(with_diffs(edited(file, 5, 5, "later = 1")), crash=crash)
    assert "+crash = 1" in render(verdict)
    assert "+later = 1" not in render(verdict)
    assert remark(verdict).startswith("1 finding of 2")


def test_nothing_to_patch_is_an_empty_patch() -> None:
    assert render(CLEAN) == ""
    assert render(with_diffs("")) == ""
