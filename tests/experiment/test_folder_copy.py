"""Copies of a script's folder: what is in them, and that nothing of the user's changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trueloop.errors import Misuse
from trueloop.experiment import folder_copy
from trueloop.experiment.folder_copy import snapshot


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    for name in ("src", "data", ".git", "venv", "src/__pycache__"):
        (folder / name).mkdir(parents=True)
    (folder / "src" / "train.py").write_text("a = 1\n", encoding="utf-8")
    (folder / "data" / "rows.csv").write_text("1,2\n", encoding="utf-8")
    (folder / "venv" / "pyvenv.cfg").write_text("", encoding="utf-8")
    (folder / ".git" / "HEAD").write_text("", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("outside", encoding="utf-8")
    (folder / "src" / "rows").symlink_to("../data/rows.csv")
    (folder / "src" / "full").symlink_to(folder / "data" / "rows.csv")
    (folder / "src" / "outside").symlink_to("../../outside.txt")
    monkeypatch.chdir(folder / "src")
    return folder


def test_a_run_gets_its_own_copy_of_the_repository(project: Path) -> None:
    with snapshot(Path("train.py")) as taken:
        script = taken.kept(project / "src" / "train.py")
        with taken.fresh_copy({script: "a = 2\n"}) as copy:
            there = Path(taken.moved(str(project), copy))
            assert (there / "src" / "train.py").read_text(encoding="utf-8") == "a = 2\n"
            assert sorted(path.name for path in there.iterdir()) == ["data", "src"]
            assert not (there / "src" / "__pycache__").exists()
            (there / "src" / "rows").write_text("changed", encoding="utf-8")
            assert (there / "src" / "full").read_text(encoding="utf-8") == "changed", "a link stays inside the copy"
            assert (there / "src" / "outside").read_text(encoding="utf-8") == "outside"
        with taken.fresh_copy({}) as second:
            kept = Path(taken.moved(str(project), second)) / "data" / "rows.csv"
            assert kept.read_text(encoding="utf-8") == "1,2\n", "a run does not see the one before"
        home = taken.home
    assert not home.exists()
    assert (project / "src" / "train.py").read_text(encoding="utf-8") == "a = 1\n"
    assert (project / "data" / "rows.csv").read_text(encoding="utf-8") == "1,2\n"


@pytest.mark.parametrize("name", ["train.py", "src/train.py", "a/train.py", "b/src/train.py", "FULL"])
def test_names_of_a_patch_are_found_with_and_without_their_first_folder(project: Path, name: str) -> None:
    script = project / "src" / "train.py"
    with snapshot(Path("train.py")) as taken:
        found = taken.find(str(script) if name == "FULL" else name)
        assert found == taken.kept(script)
        assert taken.user_path(taken.kept(script)) == script


def test_a_name_outside_is_not_found(project: Path) -> None:
    with snapshot(project / "src" / "train.py") as taken:
        assert taken.find("/etc/passwd") != Path("/etc/passwd")
        assert taken.find("../../../../x.py") is None


def test_a_script_outside_the_working_directory_brings_its_folder(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.py").write_text("b = 1\n", encoding="utf-8")
    with snapshot(other / "run.py") as taken, taken.fresh_copy({}) as copy:
        assert Path(taken.moved(str(other / "run.py"), copy)).is_file()
        working = taken.moved(str(project / "src"), copy)
        assert os.path.samefile(os.path.join(working, "../../other/run.py"), taken.moved(str(other / "run.py"), copy))


def test_a_large_folder_is_linked_or_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_copy, "MOST_BYTES", 1000)
    monkeypatch.chdir(project)
    (project / "data" / "large.bin").write_bytes(bytes(2000))
    with pytest.raises(Misuse, match="--link DIR"), snapshot(Path("src/train.py")):
        pass
    with snapshot(Path("src/train.py"), [Path("data")]) as taken, taken.fresh_copy({}) as copy:
        assert os.readlink(taken.moved(str(project), copy) + "/data") == str(project / "data")
