"""Hostile training.pt: the run is not resumed, the readiness note says so, its siblings are read as before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.hostile.canary import Evil
from tests.hostile.pickles import PICKLES
from tests.hostile.texts import SPECIAL
from tests.hostile.verbs import call, refused, reseal

HARMLESS = ("memo_bomb", "many_members")  # torch reads them: a memo is a dict there, empty records are nothing
QUICK = ("evil", "nested_load", "imports", "own_function", "grown_storage", "doubled", "expanded", "beyond", "escapes")
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PICKLES]
VERBS = [
    ["inspect", "checkpoint", "runs/evil"],
    ["evaluate", "runs/evil"],
    ["export", "runs/evil", "--to", "safetensors"],
    ["resume", "runs/evil", "--set", "epochs=2"],
    ["predict", "runs/evil", "--input", "x.npy"],
    ["bench", "runs/evil"],
    ["quantize", "runs/evil", "--scheme", "int8-dynamic"],
]


def newest(run: str = "evil") -> Path:
    return max(Path("runs", run, "checkpoints").iterdir())


def put(name: str, canary: Path) -> None:
    for checkpoint in Path("runs", "evil", "checkpoints").iterdir():
        (checkpoint / "training.pt").write_bytes(PICKLES[name](canary))
        reseal(checkpoint)


@pytest.mark.parametrize("name", CASES)
def test_inspect_refuses_it(name: str, work: Path, canary: Path) -> None:
    put(name, canary)
    said = call("inspect", "checkpoint", "runs/evil")
    if name in HARMLESS:
        assert said.code == 0
    else:
        refused(said, "training.pt (is not safe to read and was refused|holds a list, not a dict)")


@pytest.mark.parametrize("name", CASES)
def test_ready_judges_it_and_its_sibling(name: str, work: Path, canary: Path) -> None:
    put(name, canary)
    assert call("ready", "runs/evil").code in (0, 1)
    assert call("ready", "runs/good").code in (0, 1)


def test_ready_names_code_beside_all_that_a_resume_needs(work: Path, canary: Path) -> None:
    for checkpoint in Path("runs", "evil", "checkpoints").iterdir():
        held = torch.load(checkpoint / "training.pt", weights_only=True)
        torch.save({**held, "more": Evil(canary)}, checkpoint / "training.pt")
        reseal(checkpoint)
    said = call("ready", "runs/evil", "--fail-on", "error")
    assert said.code == 1, said
    assert "training.pt would execute code when loaded (posix.mkdir)" in said.text


def test_ready_names_weights_that_are_a_pickle(work: Path, canary: Path) -> None:
    for file in Path("runs", "evil", "checkpoints").glob("*/model.safetensors"):
        file.write_bytes(PICKLES["evil"](canary))
        reseal(file.parent)
    said = call("ready", "runs/evil", "--fail-on", "error")
    assert said.code == 1, said
    assert "model.safetensors is not a safetensors file" in said.text
    assert "not ready" in said.text


@pytest.mark.long
@pytest.mark.parametrize("name", ["evil", "grown_storage", "doubled", "expanded"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_no_verb_opens_it(name: str, verb: list[str], work: Path, canary: Path) -> None:
    put(name, canary)
    said = call(*verb)
    assert said.code in (1, 4), said
    assert "training.pt" in said.text, said


@pytest.mark.long
def test_probe_trains_the_recipe_anew_and_opens_no_checkpoint(work: Path, canary: Path) -> None:
    put("evil", canary)
    assert call("probe", "runs/evil", "reload-gives-same-output").code == 0


@pytest.mark.parametrize("file", ["training.pt", "model.safetensors", "manifest.json"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_a_file_that_is_not_a_file(kind: str, file: str, work: Path) -> None:
    path = newest() / file
    path.unlink()
    SPECIAL[kind](path)
    refused(call("inspect", "checkpoint", newest()))
    said = call("checkpoint", "verify", "runs/evil")
    assert said.code in (1, 4), said
    assert call("ready", "runs/evil").code in (0, 1, 4)
    assert call("ready", "runs/good").code in (0, 1)


def test_own_checkpoints_are_read_without_a_worker(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUELOOP_KEY", str(work / "own-key"))
    assert call("train", "digits", "--set", "epochs=1", "--name", "own", "--quiet").code == 0
    monkeypatch.setattr("trueloop.checkpoint.tensor_files.read_confined", None)
    monkeypatch.setattr("trueloop.readiness.training_keys.read_confined", None)
    assert call("inspect", "checkpoint", "runs/own").code == 0
    assert call("ready", "runs/own").code in (0, 1)


def test_a_stamp_is_only_for_the_bytes_that_were_stamped(
    work: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger who has got an own checkpoint cannot put another file under its manifest."""
    monkeypatch.setenv("TRUELOOP_KEY", str(work / "own-key"))
    assert call("train", "digits", "--set", "epochs=1", "--name", "own", "--quiet").code == 0
    (newest("own") / "training.pt").write_bytes(PICKLES["evil"](canary))
    refused(call("inspect", "checkpoint", newest("own")), "damaged")
    assert call("ready", "runs/own").code in (0, 1)


def test_what_a_stranger_trained_is_still_resumed(work: Path) -> None:
    assert call("resume", "runs/good", "--set", "epochs=2", "--quiet").code == 0
    assert call("inspect", "checkpoint", "runs/good").code == 0


def test_without_fences_it_says_so_and_trust_reads_it(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    refused(call("inspect", "checkpoint", "runs/good"), "no seccomp or Landlock to confine its reader")
    assert call("inspect", "checkpoint", "runs/good", "--trust").code == 0
