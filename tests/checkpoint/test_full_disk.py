"""A disk that is full, read-only or gone: one sentence, exit code 5, earlier checkpoints whole, and once there is room
the same bits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.checkpoint.disks import fill, forbid_writing, limit_files, mount_small_disk, own_mounts
from tests.conftest import in_child
from tests.session.stopping import Doing, recipe_of
from tests.torture.bits import differences, remains
from trueloop.checkpoint.contents import newest_valid, read_contents
from trueloop.checkpoint.store import Folder
from trueloop.cli.main import main
from trueloop.cli.train import exit_code
from trueloop.errors import CannotSave
from trueloop.session.folder import read_about
from trueloop.session.train import resume, train

NO_MOUNTS = "no mounts"
SIZE = 600_000
"""Of the small disk: room for a few checkpoints of this model, each of about 40 kB."""


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    run = Path(mkdtemp()) / "run"
    in_child(lambda: bool(train(recipe_of("resident"), name="run", runs=run.parent, hooks=[])))
    return remains(run)


def stopped_by(work: Callable[[Path], object], runs: Path) -> tuple[int, str]:
    """Train; at step 15 something happens to the disk. Exit code and last words."""
    done = train(recipe_of("resident"), name="run", runs=runs, hooks=[Doing(15, 14, work, runs / "run")])
    return exit_code(done.ending), done.ending.message


def whole_step(run: Path) -> int:
    """The step of the newest checkpoint, all of which must be whole."""
    _, contents, troubles = newest_valid(Folder(run / "checkpoints"), read_contents)
    assert contents is not None
    assert not troubles
    return int(contents.about["step"])


def assert_told(told: tuple[int, str], run: Path, reason: str) -> None:
    code, words = told
    assert code == 5
    assert reason in words
    assert f"`trueloop resume {run}`" in words


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path, reference: dict[str, Any]) -> None:
    def work() -> Any:
        if not own_mounts() or not mount_small_disk(tmp_path / "disk", SIZE):
            return NO_MOUNTS
        runs, ballast = tmp_path / "disk", list[Path]()
        told = stopped_by(lambda _: ballast.append(fill(runs)), runs)
        step = whole_step(runs / "run")
        ballast[0].unlink()
        code = exit_code(resume(recipe_of("resident"), runs / "run", hooks=[]).ending)
        return told, step, code, remains(runs / "run")

    answer = in_child(work)
    if answer == NO_MOUNTS:
        pytest.skip("This user may not mount a small disk; the next test does without.")
    told, step, code, left = answer
    assert_told(told, tmp_path / "disk" / "run", "No space left on device")
    assert step == 14
    assert code == 0
    assert not list(differences(reference, left))


def test_files_that_must_not_grow_stop_the_run_and_lose_nothing(tmp_path: Path, reference: dict[str, Any]) -> None:
    def work() -> Any:
        told = stopped_by(lambda _: limit_files(3000), tmp_path)
        step = whole_step(tmp_path / "run")
        limit_files(None)
        code = exit_code(resume(recipe_of("resident"), tmp_path / "run", hooks=[]).ending)
        return told, step, code, remains(tmp_path / "run")

    told, step, code, left = in_child(work)
    assert_told(told, tmp_path / "run", "File too large")
    assert step == 14
    assert code == 0
    assert not list(differences(reference, left))


def test_a_folder_that_turns_read_only_stops_the_run_and_loses_nothing(
    tmp_path: Path, reference: dict[str, Any]
) -> None:
    def work() -> Any:
        if not own_mounts():
            return NO_MOUNTS
        told = stopped_by(lambda run: forbid_writing(run / "checkpoints"), tmp_path)
        return told, whole_step(tmp_path / "run"), read_about(tmp_path / "run")["status"]

    answer = in_child(work)
    if answer == NO_MOUNTS:
        pytest.skip("This user may not mount a folder read-only.")
    told, step, status = answer
    assert_told(told, tmp_path / "run", "Read-only file system")
    assert (step, status) == (14, "failed")
    code = in_child(lambda: exit_code(resume(recipe_of("resident"), tmp_path / "run", hooks=[]).ending))
    assert code == 0
    assert not list(differences(reference, remains(tmp_path / "run")))


def test_a_folder_removed_under_the_run_stops_it_and_does_not_come_back(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, words = in_child(lambda: stopped_by(shutil.rmtree, tmp_path))
    assert code == 5
    assert "No such file or directory" in words
    assert "there is no earlier one" in words
    assert not run.exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere; the mounts above stop even root")
def test_a_folder_without_permission_is_a_sentence_before_anything_runs(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(CannotSave, match=r"Permission denied.*Nothing was run"):
        train(recipe_of("resident"), name="run", runs=tmp_path, hooks=[])


def test_a_read_only_place_for_runs_is_a_sentence_before_anything_runs(tmp_path: Path) -> None:
    def work() -> Any:
        if not own_mounts() or not forbid_writing(tmp_path):
            return NO_MOUNTS
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        code = main(["train", "digits", "--runs", str(tmp_path)])
        try:
            train(recipe_of("resident"), name="run", runs=tmp_path, hooks=[])
        except CannotSave as error:
            return code, str(error)
        return code, ""

    answer = in_child(work)
    if answer == NO_MOUNTS:
        pytest.skip("This user may not mount a folder read-only.")
    code, words = answer
    assert code == 5
    assert "Read-only file system" in words
    assert "Nothing was run" in words


def test_a_disk_that_is_full_when_the_run_would_go_on_is_a_sentence_too(tmp_path: Path) -> None:
    def work() -> Any:
        if not own_mounts() or not mount_small_disk(tmp_path / "disk", SIZE):
            return NO_MOUNTS
        runs = tmp_path / "disk"
        stopped_by(lambda _: fill(runs), runs)
        done = resume(recipe_of("resident"), runs / "run", hooks=[])
        return exit_code(done.ending), done.ending.message, whole_step(runs / "run")

    answer = in_child(work)
    if answer == NO_MOUNTS:
        pytest.skip("This user may not mount a small disk.")
    code, words, step = answer
    assert code == 5
    assert "No space left on device" in words
    assert step == 14
