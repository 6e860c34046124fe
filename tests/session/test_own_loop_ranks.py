"""`trueloop.session` of a loop of one's own on several processes: one run, resumed exactly, or refused."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import trueloop
from tests.engine.small import CLASSES, WIDTH, blobs
from tests.parallel.ranks import on_ranks
from trueloop.errors import Misuse
from trueloop.session.folder import read_about
from trueloop.track.metrics import read_rows

STEPS = 12
ROWS = TensorDataset(*blobs(48))


def trained(folder: Path, *, wrapped: bool = True, shared: bool = True, stop_at: int = 0) -> list[float]:
    """The script of a user; the first process alone evaluates. `stop_at`: rank 1 gets SIGTERM there."""
    torch.manual_seed(0)
    bare = nn.Sequential(nn.Linear(WIDTH, 8), nn.Dropout(0.2), nn.Linear(8, CLASSES))
    model: nn.Module = DistributedDataParallel(bare) if wrapped else bare
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(ROWS, batch_size=6, sampler=DistributedSampler(ROWS) if shared else None)
    rank = torch.distributed.get_rank()
    torch.manual_seed(rank)
    parts: dict[str, Any] = {"model": bare, "optimizer": optimizer, "loader": loader}
    options: dict[str, Any] = {"trackers": (), "hooks": (), "rules": False, "save_every": 5, "log_every": 3}
    with trueloop.session("mine", steps=STEPS, runs=folder, **options, **parts) as run:
        for _, (rows, labels) in run.batches():
            loss = F.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            run.log(loss=loss)
            run.memory["seen"] = run.memory.get("seen", 0.0) + float(rows.sum())
            if run.step % 4 == 0 and rank == 0:
                run.evaluated(accuracy=1.0 - 1.0 / run.step)
            if run.step == stop_at and rank == 1:
                os.kill(os.getpid(), signal.SIGTERM)
    return [*(value for each in bare.parameters() for value in each.flatten().tolist()), run.memory["seen"]]


def stopped(folder: Path) -> str:
    signal.signal(signal.SIGTERM, lambda *_: None)  # what the session raises again at its end
    trained(folder, stop_at=7)
    return ""


def test_two_processes_are_one_run_and_resume_exactly(tmp_path: Path) -> None:
    first, second = on_ranks(lambda _: trained(tmp_path / "whole"))
    assert first[:-1] == second[:-1], "the same weights"
    assert first[-1] != second[-1], "other samples"
    on_ranks(lambda _: stopped(tmp_path / "cut"))
    about = read_about(tmp_path / "cut/mine")
    assert (about["status"], about["step"]) == ("signal", 7)
    assert on_ranks(lambda _: trained(tmp_path / "cut")) == [first, second]
    assert read_about(tmp_path / "cut/mine")["best_step"] == STEPS
    rows = [
        [row.values["loss"] for row in read_rows(tmp_path / name / "mine") if row.kind == "train"]
        for name in ("whole", "cut")
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [({"wrapped": False}, "DistributedDataParallel"), ({"shared": False}, "sampler=DistributedSampler(dataset)")],
)
def test_processes_that_would_train_apart_are_refused(tmp_path: Path, options: dict[str, bool], words: str) -> None:
    def work(_: int) -> str:
        with pytest.raises(Misuse) as raised:
            trained(tmp_path, **options)
        return str(raised.value)

    assert all(words in said for said in on_ranks(work))
    assert not list(tmp_path.glob("mine/checkpoints/step-*"))


def test_processes_that_have_not_met_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with (
        pytest.raises(Misuse, match=r"call torch.distributed.init_process_group\(\)"),
        trueloop.session("mine", steps=1, runs=tmp_path, model=nn.Linear(1, 1)),
    ):
        pass
    assert not (tmp_path / "mine").exists()
