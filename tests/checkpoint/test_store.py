"""A name appears only when everything behind it is whole, whatever happens in between."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trueloop.checkpoint import plan
from trueloop.checkpoint.contents import Contents
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.store import MANIFEST, Folder, Memory, Store, seal_json, unseal_json
from trueloop.errors import BadCheckpoint, CannotSave


@pytest.fixture(params=["folder", "memory"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Folder(tmp_path / "checkpoints") if request.param == "folder" else Memory()


def write(into: Store, step: int, data: bytes = b"numbers", **about: Any) -> str:
    return into.write(name_of(step), {"step": step, **about}, {"model.safetensors": lambda out: out.write(data)})


def test_what_is_written_is_read_back(empty: Store) -> None:
    where = write(empty, 7, b"numbers", metric="accuracy")
    assert empty.names() == [name_of(7)]
    assert empty.read(name_of(7), "model.safetensors") == b"numbers"
    assert empty.manifest(name_of(7))["metric"] == "accuracy"
    assert where == empty.where(name_of(7))


def test_names_come_oldest_first(empty: Store) -> None:
    for step in (30, 4, 100_000_000):
        write(empty, step)
    assert empty.names() == [name_of(4), name_of(30), name_of(100_000_000)]


def test_the_same_name_again_replaces_it_whole(empty: Store) -> None:
    write(empty, 7, b"first")
    write(empty, 7, b"second, longer")
    assert empty.names() == [name_of(7)]
    assert empty.read(name_of(7), "model.safetensors") == b"second, longer"


def test_the_newest_manifest_says_which_is_the_best(empty: Store) -> None:
    assert empty.best() is None
    write(empty, 10, best_step=None)
    assert empty.best() is None
    write(empty, 20, best_step=20)
    write(empty, 30, best_step=20)
    assert empty.best() == name_of(20)
    empty.remove(name_of(20))
    assert empty.best() is None


def test_a_removed_one_is_gone_and_may_be_removed_again(empty: Store) -> None:
    write(empty, 7)
    empty.remove(name_of(7))
    empty.remove(name_of(7))
    assert empty.names() == []


def test_a_file_that_no_manifest_lists_is_refused(empty: Store) -> None:
    write(empty, 7)
    with pytest.raises(BadCheckpoint):
        empty.read(name_of(7), "other.safetensors")


def test_a_missing_checkpoint_is_one_sentence(empty: Store) -> None:
    with pytest.raises(BadCheckpoint, match="missing"):
        empty.manifest(name_of(1))


@pytest.mark.parametrize("files", [None, [], {"../secret": {}}, {"a/b": {}}, {".hidden": {}}, {"model.safetensors": 3}])
def test_a_manifest_that_leads_elsewhere_is_not_trusted(tmp_path: Path, files: Any) -> None:
    folder = Folder(tmp_path)
    write(folder, 7)
    (tmp_path / name_of(7) / MANIFEST).write_bytes(seal_json({"format": 1, "files": files}))
    with pytest.raises(BadCheckpoint, match="is invalid"):
        folder.manifest(name_of(7))


def test_a_later_format_is_refused_by_name(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(folder, 7)
    (tmp_path / name_of(7) / MANIFEST).write_bytes(seal_json({"format": 3, "files": {}}))
    with pytest.raises(BadCheckpoint, match=r"format 3.*newer"):
        folder.manifest(name_of(7))


def test_sealed_words_cannot_be_changed_unseen() -> None:
    data = seal_json({"step": 7, "metric": "accuracy"})
    assert unseal_json(data, "x") == {"step": 7, "metric": "accuracy"}
    for changed in (data.replace(b"7", b"8"), data[:-5], b"", b"[]", b"{}"):
        with pytest.raises(BadCheckpoint, match="x is damaged"):
            unseal_json(changed, "x")


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    write(folder, 7)

    def failing(out: Any) -> None:
        out.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(CannotSave, match=r"No space left on device.*step-00000007 is untouched"):
        folder.write(name_of(8), {}, {"a": failing})
    assert os.listdir(tmp_path) == [name_of(7)]


def test_the_disks_own_word_is_told_whatever_the_writer_makes_of_it(tmp_path: Path) -> None:
    """torch.save turns a full disk into 'unexpected pos 704 vs 598'."""
    folder = Folder(tmp_path)

    def hiding(out: Any) -> None:
        try:
            out.write(bytes(100))
        except OSError:
            raise RuntimeError("unexpected pos 704 vs 598") from None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", lambda self, *_, **__: _Full(self))
        with pytest.raises(CannotSave, match="No space left on device"):
            folder.write(name_of(8), {}, {"a": hiding})


class _Full:
    """A file on a full disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


def test_a_folder_is_made_with_its_parents_only_if_they_were_never_there(tmp_path: Path) -> None:
    fresh = Folder(tmp_path / "a" / "b" / "checkpoints")
    write(fresh, 1)
    assert fresh.names() == [name_of(1)]
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(CannotSave, match="no earlier one"):
        write(fresh, 2)
    assert not (tmp_path / "a").exists(), "a removed run must not come back as a shell"


# -- a kill between any two changes of the disk --

CHANGES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"}
"""Audit events that Python raises right before each."""


def killed_before(number: int, work: Callable[[], object]) -> bool:
    """Run the work in a child that dies before its nth change of the disk; False: it has fewer, and finished."""
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, arguments: Any) -> None:
            nonlocal seen
            seen += event in CHANGES
            if seen == number:
                os._exit(9)

        sys.addaudithook(count)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), "the work itself failed"
    return code == 9


@pytest.fixture
def _no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it has handed to the system."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def contents(step: int, best: int | None, text: str) -> Contents:
    return Contents({"step": step, "best_step": best, "text": text}, {}, {"text": text})


def save(folder: Folder, keep: int, what: Contents) -> None:
    saver = Saver(folder, keep)
    saver._write(what)  # in this thread: the child that dies has no other
    saver.check()


def whole(folder: Folder) -> dict[str, str]:
    """Names of checkpoints, each verified, with what it says."""
    for name in folder.names():
        for file in folder.manifest(name)["files"]:
            folder.read(name, file)
    return {name: folder.manifest(name)["text"] for name in folder.names()}


@pytest.mark.usefixtures("_no_waiting_for_disks")
@pytest.mark.parametrize(
    ("before", "written", "allowed"),
    [
        # (steps and bests that are there), (step, best) that is written, which newest are right afterwards
        ([(10, 10), (20, 10)], (30, 30), {(20, "old"), (30, "new")}),
        ([(10, 10), (20, 10)], (30, 10), {(20, "old"), (30, "new")}),
        ([(10, 10), (20, 10)], (20, 20), {(20, "old"), (20, "new")}),
        ([], (10, 10), {(0, ""), (10, "new")}),
    ],
    ids=["a new best", "a new one", "the same again", "the first"],
)
def test_a_kill_at_any_moment_leaves_a_whole_newest_and_its_best(
    tmp_path: Path, before: list[tuple[int, int]], written: tuple[int, int], allowed: set[tuple[int, str]]
) -> None:
    number, killed = 0, True
    while killed:
        number += 1
        folder = Folder(tmp_path / str(number))
        for step, best in before:
            save(folder, 5, contents(step, best, "old"))
        killed = killed_before(number, partial(save, folder, 1, contents(*written, "new")))
        folder.sweep()
        names = whole(folder)
        newest = list(names)[-1] if names else None
        assert (plan.step_of(newest) if newest else 0, names.get(newest or "", "")) in allowed, (
            f"killed before change {number}"
        )
        if newest is not None:
            assert folder.best() == name_of(folder.manifest(newest)["best_step"]), (
                f"killed before change {number}: the best is gone"
            )
            assert set(os.listdir(folder.folder)) == set(names), "a sweep leaves nothing half done"
    assert number > 5, "hardly a change was seen"


@pytest.mark.usefixtures("_no_waiting_for_disks")
def test_sweeping_may_be_killed_too(tmp_path: Path) -> None:
    number, killed = 0, True
    while killed:
        number += 1
        folder = Folder(tmp_path / str(number))
        write(folder, 10, text="old")
        (folder.folder / name_of(10)).rename(folder.folder / f".replaced-{name_of(10)}")
        (folder.folder / f".writing-{name_of(10)}").mkdir()
        (folder.folder / f".removing-{name_of(5)}").mkdir()
        killed = killed_before(number, folder.sweep)
        folder.sweep()
        assert whole(folder) == {name_of(10): "old"}, f"killed before change {number}"
