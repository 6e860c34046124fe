"""console.log: the end of what was printed, as complete lines, in a file of limited size."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from trueloop.track.console_file import FILE, ConsoleFile, copy_output


def kept(folder: Path) -> str:
    return (folder / FILE).read_text(encoding="utf-8")


def test_lines_come_as_they_are_complete(tmp_path: Path) -> None:
    file = ConsoleFile(tmp_path)
    file.write("one\ntw")
    assert kept(tmp_path) == "one\n"
    file.write("o\nthree")
    assert kept(tmp_path) == "one\ntwo\n"
    file.end()
    assert kept(tmp_path) == "one\ntwo\nthree\n"


def test_a_bar_that_is_redrawn_is_one_line_without_colors(tmp_path: Path) -> None:
    file = ConsoleFile(tmp_path)
    for share in range(101):
        file.write(f"\r\x1b[32m{share:3}%\x1b[0m")
    file.write("\nwindows\r\n")
    assert kept(tmp_path) == "100%\nwindows\n"


def test_a_full_file_loses_its_older_half(tmp_path: Path) -> None:
    file = ConsoleFile(tmp_path, most=1000)
    for number in range(1000):
        file.write(f"line {number}\n")
        assert (tmp_path / FILE).stat().st_size <= 1000
    lines = kept(tmp_path).splitlines()
    assert lines == [f"line {number}" for number in range(1000 - len(lines), 1000)]
    assert len(lines) > 40


def test_one_line_that_is_longer_than_the_file_is_cut(tmp_path: Path) -> None:
    ConsoleFile(tmp_path, most=100).write("x" * 50_000 + "\nend\n")
    assert (tmp_path / FILE).stat().st_size == 100
    assert kept(tmp_path).endswith("x\nend\n")


def test_a_resumed_run_appends(tmp_path: Path) -> None:
    ConsoleFile(tmp_path).write("first\n")
    ConsoleFile(tmp_path).write("second\n")
    assert kept(tmp_path) == "first\nsecond\n"


class Stream(io.StringIO):
    """With attributes, as sys.stdout has."""


def test_output_is_copied_and_the_stream_is_left_as_it_was(tmp_path: Path) -> None:
    stream = Stream()
    with copy_output(tmp_path, stream, stream):
        print("hello", 3, file=stream)
        stream.writelines(["a\n", "b\n"])
    print("later", file=stream)
    assert stream.getvalue() == "hello 3\na\nb\nlater\n"
    assert kept(tmp_path) == "hello 3\na\nb\n"
    assert "write" not in vars(stream)


def test_a_write_of_its_own_is_put_back(tmp_path: Path) -> None:
    seen: list[str] = []
    stream = Stream()
    stream.write = seen.append  # type: ignore[method-assign,assignment]
    with copy_output(tmp_path, stream):
        stream.write("x\n")
    stream.write("y\n")
    assert seen == ["x\n", "y\n"]
    assert kept(tmp_path) == "x\n"


def test_a_stream_that_takes_no_attributes_is_left_alone(tmp_path: Path) -> None:
    class Bare:
        __slots__ = ()

        def write(self, text: str) -> int:
            return len(text)

    with copy_output(tmp_path, Bare()):  # type: ignore[arg-type]
        pass
    assert not (tmp_path / FILE).exists()


def test_a_file_that_cannot_be_written_is_a_sentence_not_an_end(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    stream = Stream()
    with copy_output(tmp_path, stream) as copy:
        print("continues", file=stream)
    assert stream.getvalue() == "continues\n"
    assert copy.failure.startswith("console.log: ")


def test_a_forked_child_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, parent = Stream(), os.getpid()
    with copy_output(tmp_path, stream):
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        print("of the child", file=stream)
        monkeypatch.setattr(os, "getpid", lambda: parent)
        print("of the parent", file=stream)
    assert kept(tmp_path) == "of the parent\n"
