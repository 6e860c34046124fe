"""Where an export is put: two at once, Ctrl-C, a full disk, links, somebody's own files. What was there before stays,
or is whole."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.export.made import artifact, run_here, subject, verification
from trueloop.errors import CannotExport, CannotSave, Misuse
from trueloop.export.catalogue import find_exporter
from trueloop.export.export_model import _is_disk, export_model
from trueloop.export.folder import read_artifact, staged_folder, verify_files
from trueloop.results.artifact import FILE


def placed(place: Path, name: str = "shades") -> Path:
    with staged_folder(place) as folder:
        (folder.aside / "model.onnx").write_bytes(name.encode())
        folder.seal(artifact(verification=verification(), name=name), "a card")
        folder.publish()
    return place


def _publish_often(place: Path, name: str, times: int) -> None:
    for _ in range(times):
        placed(place, name)


def test_of_exports_at_once_one_stays_and_is_whole(tmp_path: Path) -> None:
    """Three processes, each with a hundred: none fails, nothing is lost, nothing is left over."""
    place = placed(tmp_path / "out")
    others = [
        get_context("fork").Process(target=_publish_often, args=(place, name, 100))
        for name in ("left", "right", "third")
    ]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0, 0, 0]
    made = read_artifact(place)
    assert verify_files(made).read_bytes() == made.name.encode()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_ctrl_c_between_the_earlier_and_the_later_one_brings_the_earlier_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = placed(tmp_path / "out")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name.startswith(".writing-"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        placed(place, "later")
    assert read_artifact(place).name == "shades"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_an_export_that_was_killed_at_that_moment_leaves_the_earlier_one_for_the_next(tmp_path: Path) -> None:
    placed(tmp_path / "out").rename(tmp_path / ".replaced-out")
    with pytest.raises(CannotExport), staged_folder(tmp_path / "out"):
        raise CannotExport("the target cannot take the model")
    assert read_artifact(tmp_path / "out").name == "shades"


def test_files_of_somebodys_own_are_not_lost_with_the_earlier_export(tmp_path: Path) -> None:
    place = placed(tmp_path / "out")
    (place / "measured.csv").write_text("weeks", encoding="utf-8")
    with pytest.raises(
        Misuse, match=r"holds measured\.csv, which no export wrote: it would be overwritten\. Nothing was exported"
    ):
        placed(place, "later")
    assert (place / "measured.csv").read_text(encoding="utf-8") == "weeks"
    assert read_artifact(place).name == "shades"


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "out")
    for name in ("first", "second"):
        placed(tmp_path / "link", name)
        assert (tmp_path / "link").is_symlink()
        assert read_artifact(tmp_path / "disk" / "out").name == name
    assert [each.name for each in (tmp_path / "disk").iterdir()] == ["out"]


def test_the_folder_that_one_stands_in_is_not_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (Path(), Path("."), tmp_path / "..", Path("..")):
        with pytest.raises(Misuse, match=r"Nothing was exported"), staged_folder(place):
            pytest.fail("never inside")
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("name", ["x" * 250, "x" * 400])
def test_a_name_that_is_too_long_is_told_in_a_sentence(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(CannotSave, match=r"cannot be created \(File name too long\)\. Nothing was exported"),
        staged_folder(tmp_path / name),
    ):
        pytest.fail("never inside")


# -- a disk that is full --

FULL = """
import resource, signal, sys
from pathlib import Path
from tests.export.made import subject
from trueloop.cli.main import main
from trueloop.errors import CannotSave
from trueloop.export.catalogue import find_exporter
from trueloop.export.export_model import export_model

made, exporter = subject(), find_exporter(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
try:
    export_model(made, exporter, Path(sys.argv[2]))
except CannotSave as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.parametrize("target", ["pt2", "torchscript", "safetensors"])
def test_a_full_disk_is_told_in_a_sentence_and_kills_nobody(tmp_path: Path, target: str) -> None:
    """torch ends the whole process if it may write into the file by itself."""
    done = subprocess.run([sys.executable, "-c", FULL, target, str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "could not be written (File too large). Nothing was exported." in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "disk"),
    [
        ("basic_ios::clear: iostream error", True),
        ("PytorchStreamWriter failed writing file", True),
        ("a guard", False),
    ],
)
def test_how_runtimes_say_that_a_disk_refused(words: str, disk: bool) -> None:
    inner, outer = RuntimeError(words), RuntimeError("writing an archive")
    outer.__cause__ = inner
    assert _is_disk(inner) is disk
    assert _is_disk(outer) is disk


def test_a_full_folder_for_scratch_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", full)
    with pytest.raises(
        CannotSave,
        match=r"verification samples cannot be written to .* \(No space left on device\)\. Nothing was exported",
    ):
        export_model(subject(), find_exporter("torchscript"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["pt2", "torchscript", "safetensors"])
def test_what_is_written_can_be_read_by_whoever_may_read_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """A server seldom runs as the one who trained."""
    monkeypatch.setattr("trueloop.export.verify.run_in_subprocess", run_here)
    made, exporter = subject(), find_exporter(target)
    program = made.program()
    (tmp_path / "plain").write_bytes(b"")
    exporter.write(program, made.example(program, inside=exporter.inside), tmp_path / exporter.file)
    assert stat.S_IMODE((tmp_path / exporter.file).stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


# -- a real process --

SLOW = """
import sys, time
from pathlib import Path
from trueloop.cli.failure import report_user_errors
from trueloop.export.folder import staged_folder

def work():
    with staged_folder(Path(sys.argv[1])) as folder:
        (folder.aside / "model.onnx").write_bytes(b"half")
        print("inside", flush=True)
        time.sleep(60)

try:
    work()
except KeyboardInterrupt as error:
    sys.exit(report_user_errors(error))
"""


def test_ctrl_c_in_the_middle_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    place = placed(tmp_path / "out")
    before = (place / FILE).read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(place)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert (place / FILE).read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
