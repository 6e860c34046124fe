"""An artifact is whole or it is refused with one sentence; a half-made one never stands under its name."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.export.made import artifact, verification
from trueloop.checkpoint.store import seal_json, unseal_json
from trueloop.errors import BadArtifact, CannotSave, Misuse
from trueloop.export import folder as folders
from trueloop.export.folder import CARD, read_artifact, staged_folder, verify_files
from trueloop.results.artifact import FILE, Artifact


def _placed(place: Path, **fields: Any) -> Artifact:
    with staged_folder(place) as folder:
        (folder.aside / "model.onnx").write_bytes(b"weights")
        folder.seal(artifact(verification=verification(), **fields), "a card")
        folder.publish()
    return read_artifact(place)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = _placed(tmp_path / "out")
    assert made.files["model.onnx"]["bytes"] == 7
    assert verify_files(made).read_bytes() == b"weights"
    assert (tmp_path / "out" / CARD).read_text(encoding="utf-8") == "a card"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_card_may_be_filled_by_hand(tmp_path: Path) -> None:
    _placed(tmp_path / "out")
    (tmp_path / "out" / CARD).write_text("licence: MIT", encoding="utf-8")
    assert verify_files(read_artifact(tmp_path / "out"))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-1], "6 bytes instead of 7"),
        (bytes.swapcase, "its hash is not the one"),
    ],
)
def test_a_damaged_model_is_refused(tmp_path: Path, damage: Any, said: str) -> None:
    made = _placed(tmp_path / "out")
    made.file.write_bytes(damage(made.file.read_bytes()))
    with pytest.raises(BadArtifact, match=said):
        verify_files(made)


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    made = _placed(tmp_path / "out")
    made.file.unlink()
    with pytest.raises(BadArtifact, match=r"cannot be read .*Nothing was run"):
        verify_files(made)


def test_any_changed_byte_of_the_description_is_noticed(tmp_path: Path) -> None:
    _placed(tmp_path / "out")
    file = tmp_path / "out" / FILE
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"grey"', b'"gray"'))
    with pytest.raises(
        BadArtifact, match=r"its contents do not match its hash\. Nothing was run\. Export the run again\."
    ):
        read_artifact(tmp_path / "out")
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadArtifact, match="not JSON with a hash"):
        read_artifact(tmp_path / "out")


def _resealed(place: Path, **changes: Any) -> None:
    told = unseal_json((place / FILE).read_bytes(), "")
    (place / FILE).write_bytes(seal_json({**told, **changes}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "has format 2; this trueloop reads format 1"),
        ({"inputs": "none"}, "fields are missing or invalid"),
        ({"unheard": 1}, "fields are missing or invalid"),
        ({"files": {"../model.onnx": {}}, "model": "../model.onnx"}, "is not safe"),
        ({"files": {"/etc/passwd": {}}, "model": "/etc/passwd"}, "is not safe"),
    ],
)
def test_what_it_does_not_understand_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    _placed(tmp_path / "out")
    _resealed(tmp_path / "out", **changes)
    with pytest.raises(BadArtifact, match=said):
        read_artifact(tmp_path / "out")


def test_a_folder_without_an_artifact_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadArtifact, match="`trueloop export RUN --to onnx` makes one"):
        read_artifact(tmp_path)


@pytest.mark.parametrize(
    ("version", "match", "refused"),
    [
        ("2.1.0", "major", False),
        ("1.9", "major", True),
        ("3.0", "major", True),
        ("2.13.9", "minor", False),
        ("2.1.0", "minor", True),
    ],
)
def test_another_version_of_the_runtime_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, match: str, refused: bool
) -> None:
    monkeypatch.setattr(folders, "installed_version", {"torch": "2.13.0+cpu"}.get)
    runtime = {"package": "torch", "version": version, "match": match, "machine": ""}
    place = tmp_path / "out"
    if not refused:
        assert _placed(place, runtime=runtime)
        return
    with pytest.raises(
        BadArtifact, match=rf"made for torch {version}, and torch 2\.13\.0\+cpu is installed: another {match} version"
    ):
        _placed(place, runtime=runtime)


def test_machine_code_of_another_machine_is_refused(tmp_path: Path) -> None:
    runtime = dict(artifact().runtime)
    assert _placed(tmp_path / "mine", runtime={**runtime, "machine": platform.machine()})
    with pytest.raises(BadArtifact, match="machine code for s390x"):
        _placed(tmp_path / "theirs", runtime={**runtime, "machine": "s390x"})


def test_what_fails_leaves_nothing_and_what_was_there_stays(tmp_path: Path) -> None:
    _placed(tmp_path / "out")
    before = (tmp_path / "out" / FILE).read_bytes()
    with pytest.raises(UnicodeDecodeError), staged_folder(tmp_path / "out") as folder:
        (folder.aside / "model.onnx").write_bytes(b"\xff half") and (folder.aside / "model.onnx").read_text(
            encoding="utf-8"
        )
    assert (tmp_path / "out" / FILE).read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_an_earlier_export_comes_back_if_the_later_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _placed(tmp_path / "out")
    before = (tmp_path / "out" / FILE).read_bytes()
    rename = Path.rename

    def fails(path: Path, target: Path) -> Path:
        if path.name.startswith(".writing-"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(CannotSave, match=r"could not be written \(Input/output error\)"):
        _placed(tmp_path / "out", name="another")
    assert (tmp_path / "out" / FILE).read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_later_export_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    _placed(tmp_path / "out")
    assert _placed(tmp_path / "out", name="another").name == "another"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_is_no_artifact_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years", encoding="utf-8")
    with pytest.raises(Misuse, match="it would be overwritten"), staged_folder(tmp_path):
        pytest.fail("never inside")
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "years"


def test_a_disk_that_refuses_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CannotSave, match="Nothing was exported"), staged_folder(tmp_path / "file" / "out"):
        pytest.fail("never inside")
    with pytest.raises(CannotSave, match="Nothing is left of it"), staged_folder(tmp_path / "out") as folder:
        folder.seal(artifact())  # there is no model to seal
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_an_artifact_that_was_only_described_is_none(tmp_path: Path) -> None:
    made = replace(artifact(), folder=tmp_path)
    with pytest.raises(BadArtifact):
        verify_files(made)
