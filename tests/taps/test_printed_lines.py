"""Lines that a script prints are heard, also where somebody else copies its output, and nothing is left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trueloop.taps.printed_lines import PrintedLines
from trueloop.track.console_file import FILE, copy_output


def test_both_hear_the_lines_and_the_stream_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out.txt").open("w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        heard: list[str] = []
        lines = PrintedLines(heard.append)
        with copy_output(tmp_path, sys.stdout):
            lines.install()
            print("val_acc 0.9")
            lines.remove()
            print("after")
        assert "write" not in vars(stream)
    assert heard == ["val_acc 0.9"]
    assert (tmp_path / FILE).read_text() == (tmp_path / "out.txt").read_text() == "val_acc 0.9\nafter\n"


def test_a_write_that_the_script_puts_over_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out.txt").open("w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        heard: list[str] = []
        lines = PrintedLines(heard.append)
        lines.install()
        below = stream.write
        monkeypatch.setattr(stream, "write", lambda text: below(text.upper()))
        lines.remove()
        print("after")
    assert heard == []
    assert (tmp_path / "out.txt").read_text() == "AFTER\n"
