"""Hostile text files of a run: every verb that lists, compares or reads runs ends in a sentence, siblings are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hostile.texts import SPECIAL, STEER, TEXTS, mutations
from tests.hostile.verbs import call, refused

FILES = ("run.json", "metrics.jsonl", "events.jsonl", "facts.json", "proofs.json", "report.json")
ENDS = (0, 1, 4)
EVIL = Path("runs/evil")


def around() -> None:
    """What reads all runs, or this one and another. No torch."""
    assert call("runs").code == 0
    assert call("compare", "good", "evil").code in ENDS
    assert call("ready", EVIL).code in ENDS
    assert call("ready", "runs/good").code in (0, 1)


def more() -> None:
    assert call("ready", "runs/good", "--baseline", EVIL).code in ENDS
    assert call("recheck", EVIL).code in ENDS
    assert call("inspect", "model", EVIL).code in ENDS
    assert call("resume", EVIL).code in ENDS


def each(name: str, content: bytes, file: str, *, whole: bool = False) -> None:
    (EVIL / file).write_bytes(content)
    try:
        around()
        if whole:
            more()
    except BaseException as error:
        error.add_note(f"{file}: {name}")
        raise


@pytest.mark.parametrize("file", FILES)
def test_texts(file: str, work: Path) -> None:
    each("deep", TEXTS["deep"], file)
    each("number", TEXTS["number"], file)


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("file", FILES)
def test_all_texts(file: str, name: str, work: Path) -> None:
    each(name, TEXTS[name], file, whole=True)


@pytest.mark.parametrize("kind", SPECIAL)
def test_files_that_are_not_files(kind: str, work: Path) -> None:
    for file in ("run.json", "metrics.jsonl"):
        _not_a_file(kind, file)


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", SPECIAL)
def test_all_files_that_are_not_files(kind: str, file: str, work: Path) -> None:
    _not_a_file(kind, file)
    more()


def _not_a_file(kind: str, file: str) -> None:
    path = EVIL / file
    path.unlink(missing_ok=True)
    SPECIAL[kind](path)
    try:
        around()
    except BaseException as error:
        error.add_note(f"{file}: {kind}")
        raise


@pytest.mark.long
@pytest.mark.parametrize("file", ["run.json", "facts.json"])
def test_fields(file: str, work: Path) -> None:
    for name, content in mutations(json.loads((EVIL / file).read_bytes())).items():
        each(name, content, file)


def test_some_fields(work: Path) -> None:
    found = mutations(json.loads((EVIL / "run.json").read_bytes()))
    for name in ("started is list", "recipe is text", "step is huge", "machine is list", "name is text"):
        if name in found:
            each(name, found[name], "run.json")


@pytest.mark.long
def test_rows(work: Path) -> None:
    good = (EVIL / "metrics.jsonl").read_bytes().splitlines()
    for name, content in mutations(json.loads(good[0])).items():
        each(name, b"\n".join([content, *good[1:], b""]), "metrics.jsonl")


@pytest.mark.parametrize("kind", ["pipe", "loop", "zeros", "folder"])
def test_a_run_that_is_not_a_folder(kind: str, work: Path) -> None:
    SPECIAL[kind](Path("runs/odd"))
    SPECIAL[kind](Path("runs") / "\x1b[2J")
    around()


def test_names_that_steer_a_terminal(work: Path) -> None:
    EVIL.rename(Path("runs") / STEER)
    assert call("runs").code == 0
    assert call("ready", "runs/good").code in (0, 1)


@pytest.mark.parametrize("name", ["run.json.writing", "metrics.writing", "lock", "events.jsonl", "anything"])
@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing"])
def test_a_resumed_run_does_not_write_through_links(name: str, there: bool, work: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    if there:
        victim.write_text("mine", encoding="utf-8")
    (EVIL / name).unlink(missing_ok=True)
    (EVIL / name).symlink_to(victim)
    refused(call("resume", EVIL, "--set", "epochs=2"), "is a link, and a resumed run would write to where it leads")
    assert (victim.read_text(encoding="utf-8") == "mine") if there else not victim.exists()


def test_a_readiness_note_is_not_written_through_a_link(work: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine", encoding="utf-8")
    for name in ("training-readiness.md", "training-readiness.html"):
        (EVIL / name).unlink(missing_ok=True)
        (EVIL / name).symlink_to(tmp_path / "victim")
    assert call("ready", EVIL).code in (0, 1)
    assert (tmp_path / "victim").read_text(encoding="utf-8") == "mine"
    assert (EVIL / "training-readiness.md").is_file()
