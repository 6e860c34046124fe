"""Children of trueloop do not import what lies in the current folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import trueloop

CODE = """
import subprocess
from trueloop.usercode.child_python import child_python
subprocess.run(child_python("-c", "import colorsys"), check=True)
subprocess.run(child_python("-m", "colorsys"), check=True)
"""


@pytest.mark.parametrize(("options", "ran"), [(("-P",), 0), ((), 2)])
def test_a_folder_with_modules_of_a_stranger(options: tuple[str, ...], ran: int, tmp_path: Path) -> None:
    """`trueloop` starts without the current folder, `python -c` and `python -m trueloop` with it."""
    (tmp_path / "colorsys.py").write_text("print('it ran', flush=True)", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, *options, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("it ran") == ran


@pytest.mark.parametrize("room", ["export", "serve", "bench", "inference", "dropins"])
def test_whoever_opens_files_of_strangers_starts_python_in_this_way(room: str) -> None:
    files = Path(trueloop.__file__).with_name(room).rglob("*.py")
    assert not [file.name for file in files if "sys.executable" in file.read_text(encoding="utf-8")]
