"""Runs of ours that hang: `trueloop.train()` in a script is watched too, and run.json says how it ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trueloop
from tests.session.made import made
from tests.several_ranks import free_port
from trueloop import Recipe, Splits
from trueloop.cli.main import main
from trueloop.data.dataset import Dataset
from trueloop.doctor import ranks
from trueloop.errors import Misuse, NotARun
from trueloop.hook import Hook, Row
from trueloop.session.folder import RunFolder, read_about
from trueloop.session.hang_timeout import HANG_AFTER, VARIABLE, hang_after, parse_seconds
from trueloop.session.hang_watch import end_run_on_hang, record_hang_in


class Samples:
    """The second rank finds one that never comes, once so many have been asked for."""

    def __init__(self, until: int) -> None:
        self.until, self.asked = until, 0

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.asked += 1
        if os.environ.get("RANK") == "1" and self.asked > self.until:
            time.sleep(1000)
        return torch.ones(4), index % 2


class Quiet(Hook):
    def logged(self, row: Row) -> None:
        pass


def net() -> nn.Module:
    return nn.Linear(4, 2)


def trained(folder: Path, name: str, until: int) -> Any:
    def data(_: Any) -> Splits:
        return Splits(train=Dataset(Samples(until)))

    recipe = Recipe(name=name, data=data, model=net, batch=8, steps=12, log_every=1, trackers=(), device="cpu")
    return trueloop.train(recipe, name=name, runs=folder / "runs", hooks=[Quiet()])


def on_two(folder: Path, work: Callable[[], object]) -> list[int]:
    """The exit codes of two ranks; what they say is in `err-RANK`."""
    children, port = [], free_port()
    for rank in range(2):
        child = os.fork()
        if child == 0:
            _be(folder, rank, port, work)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _be(folder: Path, rank: int, port: int, work: Callable[[], object]) -> None:
    signal.alarm(60)
    code = 9
    try:
        os.dup2(os.open(folder / f"err-{rank}", os.O_WRONLY | os.O_CREAT), 2)
        sys.stderr = os.fdopen(2, "w", 1, closefd=False)
        said = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in said.items()})
        os.environ.update({"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "test", VARIABLE: "1"})
        tempfile.tempdir = str(folder)
        ranks.PATIENCE, ranks.LATE = 1.0, 3.0  # type: ignore[misc]
        work()
        code = 0
    finally:
        os._exit(code)


def test_train_called_from_python_ends_with_a_paragraph_and_run_json_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_two(tmp_path, lambda: trained(tmp_path, "stuck", until=30)) == [5, 5]
    shown = "".join((tmp_path / f"err-{rank}").read_text(encoding="utf-8") for rank in (0, 1))
    assert shown.count("error PAR106") == 1
    about = read_about(tmp_path / "runs" / "stuck")
    assert about["status"] == "hung"
    assert about["ended"] >= about["started"]
    assert "rank 1 never calls it: it has waited since " in about["message"]
    assert about["message"].endswith(f"Continue with: trueloop resume {tmp_path}/runs/stuck")
    assert not list(tmp_path.glob("trueloop-*")), "the folder in which they met is gone"
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "hung" in out
    assert "stuck: Rank 0 waits in " in out


def test_a_second_run_of_the_same_program_is_watched_like_the_first(tmp_path: Path) -> None:
    def work() -> None:
        trained(tmp_path, "whole", until=1000)
        trained(tmp_path, "stuck", until=30)

    assert on_two(tmp_path, work) == [5, 5]
    assert [read_about(tmp_path / "runs" / name)["status"] for name in ("whole", "stuck")] == ["finished", "hung"]


def test_one_process_is_not_watched_and_a_run_in_it_is_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    before = torch.distributed.all_reduce
    with end_run_on_hang(1.0):
        assert torch.distributed.all_reduce is before
    assert trained(tmp_path, "alone", until=1000).ending.reason == "finished"


# -- how long --


def test_the_variable_says_how_long_and_rubbish_in_it_is_refused() -> None:
    assert hang_after({}) == HANG_AFTER
    assert hang_after({VARIABLE: ""}) == HANG_AFTER
    assert hang_after({VARIABLE: "90s"}) == 90.0
    with pytest.raises(Misuse, match=f"{VARIABLE} cannot be 'soon'. Nothing was run"):
        hang_after({VARIABLE: "soon"})


@pytest.mark.parametrize("text", ["0", "0.5", "-3", "5 days", "inf", "1.2.3", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="Nothing was run: write a number of seconds, 1 or more"):
        parse_seconds(text, "--hang-after")


# -- run.json --


def test_a_guest_leaves_word_where_the_first_process_cannot(tmp_path: Path) -> None:
    path = made(tmp_path, "r", [], status="running", total_steps=9)
    guest = RunFolder(path, {"status": "running"}, guest=True)
    guest.write(status="finished")
    assert read_about(path)["status"] == "running", "a guest writes nothing"
    guest.leave_word(status="hung", message="why")
    about = read_about(path)
    assert (about["status"], about["message"], about["total_steps"]) == ("hung", "why", 9)
    assert [each.name for each in path.iterdir() if "writing" in each.name] == []


def test_word_is_not_left_in_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARun):
        RunFolder(tmp_path, {}, guest=True).leave_word(status="hung")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may lie on the machine that cannot be reached."""
    kept: list[Callable[[str], None]] = []
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("trueloop.doctor.hang_watch.set_hang_recorder", kept.append)
    record_hang_in(RunFolder(tmp_path / "gone", {}), lambda: 3)
    kept[0]("it hangs.")
    assert capsys.readouterr().err.startswith(f"note: {tmp_path}/gone/run.json could not be written (")


def test_a_training_thread_that_wakes_up_afterwards_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Callable[[str], None]] = []
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("trueloop.doctor.hang_watch.set_hang_recorder", kept.append)
    folder = RunFolder(made(tmp_path, "r", [], status="running"), {})
    record_hang_in(folder, lambda: 3)
    kept[0]("it hangs.")
    folder.write(status="failed", message="RuntimeError: Connection closed by peer")
    about = json.loads((folder.path / "run.json").read_text(encoding="utf-8"))
    assert (about["status"], about["step"]) == ("hung", 3)
    assert about["message"].startswith("it hangs. Continue with: trueloop resume ")
