"""Which commands that a script starts are Python programs, and which of them were not watched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from trueloop.doctor.unwatched_programs import note_seen, note_started, unwatched_programs


@pytest.mark.parametrize(
    ("given", "shell", "found"),
    [
        (["/opt/py/bin/python3.12", "train.py", "--lr", "1"], False, ("/opt/py/bin/python3.12 train.py --lr 1",)),
        (["conda", "run", "-n", "old", "python", "-u", "train.py"], False, ("python -u train.py",)),
        (["python", "-W", "ignore", "-m", "work.train"], False, ("python -W ignore -m work.train",)),
        ([b"python3", Path("train.py")], False, ("python3 train.py",)),
        ("cd x && OMP_NUM_THREADS=1 python -I train.py > log.txt; ls", True, ("python -I train.py",)),
        ("python a.py & python b.py", True, ("python a.py", "python b.py")),
        (["python", "--version"], False, ()),
        (["python", "-c", "import train.py"], False, ()),
        (["python", "-m", "pip", "install", "x"], False, ()),
        (["python", "-m", "json.tool", "a.json"], False, ()),
        (["git", "add", "train.py"], False, ()),
        ("python train.py", False, ()),
        ("python 'train.py", True, ()),
        (None, False, ()),
        (7, True, ()),
    ],
)
def test_a_command_that_runs_a_file_or_a_module_by_python_is_found(
    tmp_path: Path, given: Any, shell: bool, found: tuple[str, ...]
) -> None:
    note_started(str(tmp_path), given, shell=shell)
    assert unwatched_programs(str(tmp_path)) == found


def test_a_program_that_was_seen_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (["python", "a.py"], ["/usr/bin/python3", "b.py"], ["python", "b.py"]):
        note_started(str(tmp_path), command)
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "b.py"])
    note_seen(str(tmp_path))
    assert unwatched_programs(str(tmp_path)) == ("python a.py",)


def test_a_folder_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    note_started(str(tmp_path / "gone"), ["python", "a.py"])
    note_seen(str(tmp_path / "gone"))
    assert unwatched_programs(str(tmp_path / "gone")) == ()
