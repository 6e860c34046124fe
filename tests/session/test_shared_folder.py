"""Several processes, one run: one folder, one voice, and nobody waits for a process that has left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trueloop.errors import Misuse
from trueloop.parallel.peers import Alone
from trueloop.session.folder import RunFolder
from trueloop.session.shared_folder import open_shared_folder

RECIPE = """\
import torch
from torch import nn
from trueloop import Recipe, Splits, Tensors

def read(request):
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(90, 8, generator=draws)
    targets = (inputs[:, 0] > 0).long()
    return Splits(Tensors(inputs[:70], targets[:70]), Tensors(inputs[70:], targets[70:]))

recipe = Recipe(
    name="shared", model=lambda: nn.Linear(8, 2), data=read, epochs=3, batch=16, lr=0.1, log_every=1, trackers=(),
    device="cpu",
)
"""


def launched(folder: Path, processes: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "trueloop", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row["loss"] for row in rows if row["kind"] == "train"]


@pytest.mark.long
def test_two_processes_train_one_run_to_the_losses_of_one(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(RECIPE, encoding="utf-8")
    done = launched(tmp_path, 2, "train", "shared.py", "--name", "two")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished") == 1
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["two"]
    alone = subprocess.run(
        [sys.executable, "-m", "trueloop", "train", "shared.py", "--name", "one"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert alone.returncode == 0, alone.stderr
    assert losses(tmp_path / "runs" / "two") == pytest.approx(losses(tmp_path / "runs" / "one"), rel=1e-5)


@pytest.mark.long
def test_a_refusal_of_the_first_process_is_everybodys(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "runs" / "taken").mkdir(parents=True)
    (tmp_path / "runs" / "taken" / "run.json").write_text('{"kind": "train"}', encoding="utf-8")
    done = launched(tmp_path, 2, "train", "shared.py", "--name", "taken")
    assert done.returncode != 0
    assert "already holds a run" in done.stderr


def test_alone_the_folder_is_ones_own(tmp_path: Path) -> None:
    folder = open_shared_folder(Alone(), lambda: RunFolder.create(tmp_path, "mine", {}, named=True))
    assert not folder.guest
    folder.close()


def test_alone_an_error_is_raised_as_it_is(tmp_path: Path) -> None:
    def refuse() -> RunFolder:
        raise Misuse("not here")

    with pytest.raises(Misuse, match="not here"):
        open_shared_folder(Alone(), refuse)


def test_a_guest_writes_nothing(tmp_path: Path) -> None:
    guest = RunFolder(tmp_path, {"kind": "train"}, guest=True)
    guest.write(status="finished")
    assert guest.about["status"] == "finished"
    assert list(tmp_path.iterdir()) == []
