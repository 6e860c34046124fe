"""A run's folder: whose it is, and what a kill may leave of it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from trueloop.errors import CannotSave, Misuse, NotARun
from trueloop.session.folder import RunFolder, read_about, running


def made(runs: Path, name: str = "mine", *, named: bool = True) -> RunFolder:
    return RunFolder.create(runs, name, {"recipe": {}}, named=named)


def test_a_new_run_is_running_and_locked(tmp_path: Path) -> None:
    folder = made(tmp_path)
    assert read_about(folder.path)["status"] == "running"
    assert running(folder.path)
    folder.close()
    assert not running(folder.path)


def test_a_name_that_was_asked_for_is_not_taken_twice(tmp_path: Path) -> None:
    made(tmp_path).close()
    with pytest.raises(Misuse, match=r"already holds a run. Nothing was run.*trueloop resume"):
        made(tmp_path)


def test_a_name_that_was_not_asked_for_gets_a_number(tmp_path: Path) -> None:
    assert [made(tmp_path, named=False).path.name for _ in range(3)] == ["mine", "mine-2", "mine-3"]


def test_what_a_kill_left_before_the_first_word_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "lock").touch()
    (tmp_path / "mine" / "run.json.writing").write_text("{")
    folder = made(tmp_path)
    assert read_about(folder.path)["status"] == "running"


def test_a_folder_of_somebody_else_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(Misuse):
        made(tmp_path)


def test_a_file_in_the_way_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(CannotSave, match=r"cannot be made \(Not a directory\). Nothing was run"):
        made(tmp_path / "runs")


def test_an_open_run_is_refused_to_a_second(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with pytest.raises(Misuse, match="another process"):
        RunFolder.open(folder.path)
    assert running(folder.path), "the refusal has not taken the lock away"
    folder.close()
    RunFolder.open(folder.path).close()


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    folder = made(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b".")
        signal.pause()
    os.read(reading, 1)  # the child lives
    folder.close()
    try:
        assert not running(folder.path)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_run_json_is_replaced_whole(tmp_path: Path) -> None:
    folder = made(tmp_path)
    folder.write(status="signal", step=7)
    assert read_about(folder.path)["step"] == 7
    assert sorted(os.listdir(folder.path)) == ["lock", "run.json"]
    folder.close()


def test_what_is_opened_is_read_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may end the run between the first look and the lock."""
    folder = made(tmp_path)
    folder.close()
    acquire = RunFolder.acquire

    def late(self: RunFolder) -> None:
        (self.path / "run.json").write_text(json.dumps({"kind": "train", "status": "finished"}))
        acquire(self)

    monkeypatch.setattr(RunFolder, "acquire", late)
    opened = RunFolder.open(folder.path)
    assert opened.about["status"] == "finished"
    opened.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "check"}'])
def test_a_damaged_run_json_is_no_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(NotARun, match="Nothing was done"):
        RunFolder.open(tmp_path)
