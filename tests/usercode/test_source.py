"""Diffs of the user's source, applied by the real `patch`: whatever ends its lines, whatever indents them."""

from __future__ import annotations

import ast
import linecache
import subprocess
from pathlib import Path

import pytest

from trueloop.usercode.rewrite import after, indent_under, move_statement
from trueloop.usercode.source import Edit, Source, diff, lines_on_disk, source_of

TEXT = "first = 1\nfor i in range(3):\n    second = 2\n    third = 3\nlast = 4\n"
ENDS = {"unix": "\n", "windows": "\r\n"}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "train.py"


def patched(script: Path, edits: list[Edit]) -> bytes:
    made = diff(str(script), edits)
    assert made
    done = subprocess.run(["patch", "-p0"], input=made.encode(), cwd=script.parent, capture_output=True)
    assert done.returncode == 0, f"{done.stdout.decode()}\n{made}"
    assert b"fuzz" not in done.stdout
    assert b"offset" not in done.stdout
    return script.read_bytes()


def written(script: Path, text: str) -> Source:
    script.write_bytes(text.encode())
    return source_of(str(script))


EDITS = {
    "a line changed": (Edit(3, 3, ("    second = 22",)), TEXT.replace("second = 2", "second = 22")),
    "the last line changed": (Edit(5, 5, ("last = 44",)), TEXT.replace("last = 4", "last = 44")),
    "a line before the first": (Edit(1, 0, ("zeroth = 0",)), "zeroth = 0\n" + TEXT),
    "a line before the last": (Edit(5, 4, ("more = 5",)), TEXT.replace("last", "more = 5\nlast")),
    "a line behind the last": (Edit(6, 5, ("more = 5",)), TEXT + "more = 5\n"),
    "the last line taken out": (Edit(5, 5, ()), TEXT.replace("last = 4\n", "")),
    "one line made two": (Edit(5, 5, ("last = (", "4)")), TEXT.replace("last = 4", "last = (\n4)")),
}


@pytest.mark.parametrize("newline", [True, False], ids=["newline at the end", "none at the end"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_keeps_the_line_ends_of_the_file(script: Path, name: str, end: str, newline: bool) -> None:
    edit, expected = EDITS[name]
    written(script, (TEXT if newline else TEXT.rstrip("\n")).replace("\n", ENDS[end]))
    assert patched(script, [edit]) == (expected if newline else expected.rstrip("\n")).replace("\n", ENDS[end]).encode()


def test_a_mark_before_the_first_character_stays(script: Path) -> None:
    written(script, "\ufeff" + TEXT)
    assert patched(script, [Edit(2, 1, ("more = 5",))]).decode() == "\ufeff" + TEXT.replace("for", "more = 5\nfor")


def test_letters_beyond_ascii_are_counted_as_letters(script: Path) -> None:
    source = written(script, 'name = "größe", old  # ümlaut\n')
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Tuple)
    assert (
        patched(script, [source.replacing(statement.value.elts[1], "new")]).decode()
        == 'name = "größe", new  # ümlaut\n'
    )


def test_a_file_that_is_not_utf_8_has_no_diff(script: Path) -> None:
    script.write_bytes("# -*- coding: latin-1 -*-\nname = 'größe'\n".encode("latin-1"))
    assert diff(str(script), [Edit(2, 2, ("name = 1",))]) == ""


def test_what_would_not_parse_and_what_changes_nothing_has_no_diff(script: Path) -> None:
    written(script, TEXT)
    assert diff(str(script), [Edit(1, 1, ("first = (",))]) == ""
    assert diff(str(script), [Edit(1, 1, ("first = 1",))]) == ""
    assert diff(str(script.parent / "gone.py"), [Edit(1, 0, ("first = 1",))]) == ""


def test_a_file_that_was_changed_meanwhile_is_taken_as_it_ran(script: Path) -> None:
    written(script, TEXT)
    assert lines_on_disk(str(script)) == TEXT.splitlines(keepends=True)
    script.write_text("other = 1\n", encoding="utf-8")
    assert lines_on_disk(str(script)) == TEXT.splitlines(keepends=True)
    linecache.checkcache(str(script))
    assert lines_on_disk(str(script)) == ["other = 1\n"]


@pytest.mark.parametrize("unit", ["\t", "  ", "    "], ids=["tabs", "two spaces", "four spaces"])
def test_a_block_is_indented_as_the_file_is(script: Path, unit: str) -> None:
    source = written(script, TEXT.replace("    ", unit))
    edit = indent_under(source, source.tree.body[1], "with context:")
    assert edit is not None
    lines = [
        "first = 1",
        "with context:",
        f"{unit}for i in range(3):",
        f"{unit}{unit}second = 2",
        f"{unit}{unit}third = 3",
        "last = 4",
        "",
    ]
    assert patched(script, [edit]).decode() == "\n".join(lines)


@pytest.mark.parametrize("unit", ["\t", "    "], ids=["tabs", "spaces"])
def test_a_line_is_moved_and_written_with_the_indentation_of_its_new_block(script: Path, unit: str) -> None:
    source = written(script, TEXT.replace("    ", unit))
    loop = source.tree.body[1]
    assert isinstance(loop, ast.For)
    lines = ["first = 1", "for i in range(3):", f"{unit}third = 3", "second = 2", "last = 4", ""]
    assert patched(script, move_statement(source, loop.body[0], loop)).decode() == "\n".join(lines)


def test_a_line_is_added_behind_another_with_its_indentation(script: Path) -> None:
    source = written(script, TEXT.replace("    ", "\t"))
    loop = source.tree.body[1]
    assert isinstance(loop, ast.For)
    added = patched(script, [after(source, loop.body[1], "fourth = 5")]).decode()
    assert "\n\tthird = 3\n\tfourth = 5\nlast" in added
