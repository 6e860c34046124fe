"""Changes to files: unified diffs with -p0 and -p1 names, and OLD => NEW."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from trueloop.errors import Misuse
from trueloop.experiment.patch import apply_patch, replace_text

OLD = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\ng = 7\nh = 8\ni = 9\n"


def diff(before: str, after: str, old: str = "train.py", new: str = "train.py") -> str:
    pieces = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, new)
    return "".join(piece if piece.endswith("\n") else piece + "\n\\ No newline at end of file\n" for piece in pieces)


def patched(folder: Path, before: str, patch: str) -> str | None:
    file = folder / "train.py"
    file.write_bytes(before.encode())
    return apply_patch(patch, lambda _: file)[file]


@pytest.mark.parametrize(
    "after",
    [
        OLD.replace("b = 2", "b = 20"),
        OLD.replace("b = 2\n", ""),
        OLD.replace("b = 2", "b = 2\nnew = 1").replace("h = 8\n", ""),
        "first = 0\n" + OLD,
        OLD + "last = 0\n",
        OLD.removesuffix("\n"),
        OLD.replace("i = 9\n", "i = 10"),
    ],
)
def test_a_patch_gives_the_new_text(tmp_path: Path, after: str) -> None:
    assert patched(tmp_path, OLD, diff(OLD, after)) == after
    bare = OLD.removesuffix("\n")
    assert bare == after or patched(tmp_path, bare, diff(bare, after)) == after


def test_windows_line_endings_are_kept(tmp_path: Path) -> None:
    after = OLD.replace("b = 2", "b = 20")
    assert patched(tmp_path, OLD.replace("\n", "\r\n"), diff(OLD, after)) == after.replace("\n", "\r\n")


def test_lines_that_have_moved_are_found(tmp_path: Path) -> None:
    patch = diff(OLD, OLD.replace("e = 5", "e = 50"))
    assert patched(tmp_path, "# new\n# lines\n" + OLD, patch) == "# new\n# lines\n" + OLD.replace("e = 5", "e = 50")


def test_a_patch_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    patch = diff(OLD, OLD.replace("e = 5", "e = 50"))
    with pytest.raises(Misuse, match=r"does not fit train\.py: part 1 of 1"):
        patched(tmp_path, OLD.replace("e = 5", "e = 6"), patch)
    with pytest.raises(Misuse, match="holds no change"):
        patched(tmp_path, OLD, "just text\n")
    with pytest.raises(Misuse, match="which is not in the folder"):
        apply_patch(patch, lambda _: None)


def test_files_are_created_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "new.py"
    assert apply_patch(diff("", "a = 1\n", "/dev/null", "b/new.py"), lambda _: file) == {file: "a = 1\n"}
    file.write_text("a = 1\n", encoding="utf-8")
    assert apply_patch(diff("a = 1\n", "", "a/new.py", "/dev/null"), lambda _: file) == {file: None}


def test_old_is_replaced_where_it_occurs_once(tmp_path: Path) -> None:
    script, config = tmp_path / "train.py", tmp_path / "config.yaml"
    script.write_text("lr = 10\nwd = 10\n", encoding="utf-8")
    config.write_text("dropout: 0.9\n", encoding="utf-8")
    assert replace_text("lr = 10 => lr = 0.1", script, tmp_path, {}) == {script: "lr = 0.1\nwd = 10\n"}
    assert replace_text("wd = 10 =>", script, tmp_path, {}) == {script: "lr = 10\n\n"}
    assert replace_text("dropout: 0.9 => dropout: 0.1", script, tmp_path, {}) == {config: "dropout: 0.1\n"}
    known = replace_text("lr = 10 => lr = 0.1", script, tmp_path, {})
    assert replace_text("wd = 10 => wd = 0", script, tmp_path, dict(known)) == {script: "lr = 0.1\nwd = 0\n"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("10 => 1", "occurs 2 times in train.py .lines 1, 2."),
        ("momentum => m", "does not contain 'momentum', nor does any other file"),
        ("lr", "expected 'OLD => NEW'"),
        (" => x", "expected 'OLD => NEW'"),
    ],
)
def test_a_replacement_that_is_not_clear_is_refused(tmp_path: Path, change: str, said: str) -> None:
    script = tmp_path / "train.py"
    script.write_text("lr = 10\nwd = 10\n", encoding="utf-8")
    (tmp_path / "binary.json").write_bytes(os.urandom(64) + b"\xff")
    with pytest.raises(Misuse, match=said):
        replace_text(change, script, tmp_path, {})
