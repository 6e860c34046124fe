"""Jobs that strangers wrote: losses of plain PyTorch, bit-identical after kills, not longer than with Lightning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.conftest import in_child
from tests.engine.strangers.jobs import JOBS, Job, lines_of
from tests.torture.run import Account, torment
from tests.torture.victim import warm_up
from trueloop.session.train import train
from trueloop.track.metrics import read_rows

KILLS = 5
every_job = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)


def test_there_are_25_jobs() -> None:
    assert len(JOBS) >= 25


@every_job
def test_its_losses_are_those_of_the_plain_loop(job: Job, tmp_path: Path) -> None:
    def work() -> tuple[list[float], list[float]]:
        os.chdir(tmp_path)
        torch.set_num_threads(1)
        folder = train(job.recipe(), runs=tmp_path, hooks=()).folder
        return [row.values["loss"] for row in read_rows(folder) if row.kind == "train"], job.plain_losses()

    ours, plain = in_child(work)
    assert len(ours) >= 20
    assert ours == pytest.approx(plain, rel=2e-4, abs=1e-5)


@pytest.mark.long
@every_job
def test_it_is_bit_identical_after_kills(job: Job, tmp_path: Path) -> None:
    def work() -> Account:
        os.chdir(tmp_path)
        warm_up()
        return torment(job, KILLS, os.getpid(), tmp_path)

    account = in_child(work)
    assert not account.troubles
    assert account.kills.total() == KILLS
    assert account.identical == account.runs


@every_job
def test_it_is_not_longer_than_with_lightning(job: Job) -> None:
    assert lines_of(job.folder / "recipe.py") <= lines_of(job.folder / "lightning_version.py")
