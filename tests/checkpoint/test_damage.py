"""Damaged checkpoints are named and passed over; what runs code when it is read is refused; the run goes on from the
newest whole one."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch

from tests.conftest import in_child
from tests.session.stopping import Words, at_forward, recipe_of, signalling
from tests.torture.bits import differences, remains
from trueloop.checkpoint.contents import Contents, newest_valid, read_contents
from trueloop.checkpoint.plan import name_of
from trueloop.checkpoint.store import MANIFEST, Folder, seal_json
from trueloop.cli.main import main
from trueloop.errors import BadCheckpoint
from trueloop.hook import Hook
from trueloop.session import train as session

# Signals are part of these tests, not their end.
train = partial(session.train, hand_on_signals=False)
resume = partial(session.resume, hand_on_signals=False)

FILES = ["model.safetensors", "ema.safetensors", "training.pt", MANIFEST]
NEWEST, BEFORE = name_of(20), name_of(10)


@pytest.fixture
def two(tmp_path: Path) -> Folder:
    """A store with two checkpoints."""
    folder = Folder(tmp_path)
    for step in (10, 20):
        weights = {name: {"weight": torch.randn(40, 3), "bias": torch.zeros(3)} for name in ("model", "ema")}
        contents = Contents({"step": step, "best_step": 10}, weights, {"state": {"step": step}})
        folder.write(name_of(step), contents.about, contents.writers())
    return folder


def assert_passed_over(folder: Folder, file: str) -> None:
    name, contents, troubles = newest_valid(folder, read_contents)
    assert name == BEFORE
    assert contents is not None
    assert contents.training["state"]["step"] == 10
    assert len(troubles) == 1
    assert str(folder.folder / NEWEST / file) in troubles[0], troubles[0]
    assert "damaged" in troubles[0] or "missing" in troubles[0]
    assert folder.names() == [BEFORE, NEWEST], "nothing is removed: it may be all that somebody has"


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_named_and_the_one_before_is_taken(two: Folder, file: str, share: float) -> None:
    path = two.folder / NEWEST / file
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert_passed_over(two, file)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.5, 0.77, 0.95])
def test_one_flipped_bit_is_named_and_the_one_before_is_taken(two: Folder, file: str, share: float) -> None:
    path = two.folder / NEWEST / file
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 4
    path.write_bytes(data)
    assert_passed_over(two, file)


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_is_named_and_the_one_before_is_taken(two: Folder, file: str) -> None:
    (two.folder / NEWEST / file).unlink()
    assert_passed_over(two, file)


def test_where_none_is_whole_all_are_named(two: Folder) -> None:
    for name in two.names():
        (two.folder / name / MANIFEST).unlink()
    assert newest_valid(two, read_contents)[:2] == (None, None)
    assert len(newest_valid(two, read_contents)[2]) == 2


def test_the_best_is_still_known_when_the_newest_manifest_is_damaged(two: Folder) -> None:
    (two.folder / NEWEST / MANIFEST).write_text("{}")
    assert two.best() == BEFORE


# -- code in a file --


class Attack:
    """Runs when it is unpickled by anybody who trusts it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.trace}",)


def swapped(folder: Folder, name: str, file: str, data: bytes) -> None:
    """Another file, with a manifest that vouches for it: whoever can write there can do that too."""
    contents = read_contents(folder, name)
    files = {**contents.writers(), file: lambda out: out.write(data)}
    folder.write(name, contents.about, files)


@pytest.mark.parametrize("wrapped", [True, False], ids=["torch.save", "pickle"])
def test_a_checkpoint_that_would_run_code_is_refused_and_nothing_runs(
    two: Folder, tmp_path: Path, wrapped: bool
) -> None:
    trace = tmp_path / "it-ran"
    bomb = tmp_path / "bomb"
    if wrapped:
        torch.save({"state": Attack(trace)}, bomb)
    else:
        bomb.write_bytes(pickle.dumps({"state": Attack(trace)}))
    swapped(two, NEWEST, "training.pt", bomb.read_bytes())
    with pytest.raises(
        BadCheckpoint, match=r"training.pt is not safe to read and was refused; no code in it was executed"
    ):
        read_contents(two, NEWEST)
    assert not trace.exists()
    assert newest_valid(two, read_contents)[0] == BEFORE
    torch.load(bomb, weights_only=False) if wrapped else pickle.loads(bomb.read_bytes())
    assert trace.exists(), "the attack itself works"


def test_a_sealed_manifest_without_files_is_refused(two: Folder) -> None:
    (two.folder / NEWEST / MANIFEST).write_bytes(seal_json({"step": 20}))
    assert newest_valid(two, read_contents)[0] == BEFORE


def test_bytes_that_are_no_safetensors_are_refused(two: Folder) -> None:
    swapped(two, NEWEST, "model.safetensors", b"\x08\0\0\0\0\0\0\0nonsense")
    with pytest.raises(BadCheckpoint, match=r"model.safetensors is not a safetensors file"):
        read_contents(two, NEWEST)


# -- a whole run --


@cache
def reference() -> dict[str, Any]:
    run = Path(mkdtemp()) / "run"
    in_child(lambda: bool(train(recipe_of("resident"), name="run", runs=run.parent, hooks=[])))
    return remains(run)


def stopped(runs: Path) -> Path:
    """A run that was stopped at step 26, with checkpoints of steps 14, 20 (the best or an evaluation), 21 and 26 or
    some of them."""
    recipe = at_forward(recipe_of("resident", keep=3), 26, signalling(signal.SIGTERM))
    in_child(lambda: bool(train(recipe, name="run", runs=runs, hooks=[])))
    return runs / "run"


def resumed(run: Path) -> list[str]:
    def work() -> list[str]:
        words: list[Hook] = [Words()]
        resume(recipe_of("resident", keep=3), run, hooks=words)
        assert isinstance(words[0], Words)
        return words[0].notes

    notes: list[str] = in_child(work)
    return notes


def without_recipe(left: dict[str, Any]) -> dict[str, Any]:
    """Apart from `keep`, which these runs have set otherwise."""
    for which in ("last checkpoint", "best checkpoint"):
        left[which]["about"].pop("recipe", None)
    return left


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda newest: flip(newest / "model.safetensors"),
        lambda newest: flip(newest / "training.pt"),
        lambda newest: (newest / MANIFEST).unlink(),
        lambda newest: os.truncate(newest / "training.pt", 100),
        lambda newest: shutil.rmtree(newest),
    ],
    ids=["a bit of the weights", "a bit of the rest", "no manifest", "truncated", "all of it"],
)
def test_a_run_with_a_damaged_checkpoint_goes_on_from_the_one_before_to_the_same_bits(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    run = stopped(tmp_path)
    newest = run / "checkpoints" / name_of(26)
    damage(newest)
    notes = resumed(run)
    if newest.exists():
        assert [note for note in notes if str(newest) in note and "It was passed over." in note]
    assert not list(differences(without_recipe(reference()), without_recipe(remains(run))))


def test_a_run_with_nothing_but_damage_is_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped(tmp_path)
    for checkpoint in (run / "checkpoints").iterdir():
        flip(checkpoint / "model.safetensors")
    with pytest.raises(
        BadCheckpoint, match=r"model.safetensors is damaged.*This run has no valid checkpoint. Nothing was run."
    ):
        resume(recipe_of("resident", keep=3), run, hooks=[])
    assert main(["checkpoint", "verify", str(run)]) == 1
    assert "damaged" in capsys.readouterr().out


def test_a_damaged_best_does_not_keep_a_run_from_ending(tmp_path: Path) -> None:
    run = tmp_path / "run"

    def work() -> tuple[str, list[str]]:
        words = Words()
        done = train(recipe_of("resident"), name="run", runs=tmp_path, hooks=[words])
        assert done.best_checkpoint is not None
        (Path(done.best_checkpoint) / "model.safetensors").unlink()
        from trueloop.session.folder import RunFolder

        folder = RunFolder.open(run)
        folder.write(status="running")
        folder.close()
        again = Words()
        return resume(recipe_of("resident"), run, hooks=[again]).ending.reason, again.notes

    reason, notes = in_child(work)
    assert reason == "finished"
    assert any("It was the best one" in note or "It was ignored" in note for note in notes)
