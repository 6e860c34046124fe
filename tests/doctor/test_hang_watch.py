"""Runs of ours on two ranks, watched for ranks that can never meet again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.several_ranks import free_port
from trueloop.data.dataset import Dataset
from trueloop.doctor import ranks
from trueloop.doctor.hang_watch import watch_for_hangs
from trueloop.finding import Finding

CODE = 5


def _on_two(folder: Path, work: Callable[[int], object]) -> tuple[list[int], str]:
    """The exit codes of two ranks that do this work in a vigil, and what was shown."""
    children = []
    port = free_port()
    for rank in range(2):
        child = os.fork()
        if child == 0:
            _be(folder, rank, port, work)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    shown = folder / "shown.txt"
    return codes, shown.read_text(encoding="utf-8") if shown.exists() else ""


def _be(folder: Path, rank: int, port: int, work: Callable[[int], object]) -> None:
    signal.alarm(40)
    code = 9
    try:
        said = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in said.items()})
        os.environ.update(MASTER_ADDR="127.0.0.1", TORCHELASTIC_RUN_ID="test", TORCHELASTIC_RESTART_COUNT="0")
        tempfile.tempdir = str(folder)
        ranks.PATIENCE, ranks.LATE = 1.0, 3.0  # type: ignore[misc]

        def show(finding: Finding) -> None:
            with (folder / "shown.txt").open("a", encoding="utf-8") as file:
                file.write(f"{finding.message}\n")

        with watch_for_hangs(1.0, show, CODE):
            dist.init_process_group("gloo")
            dist.all_reduce(torch.ones(1))
            work(rank)
        code = 0
    finally:
        os._exit(code)


class Stuck:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 1:
            time.sleep(1000)
        return torch.ones(1), 0


def test_a_rank_stuck_in_its_data_ends_both_with_the_code_and_one_paragraph(tmp_path: Path) -> None:
    def work(rank: int) -> None:
        if rank == 1:
            Dataset(Stuck()).fetch(torch.arange(2))
        dist.barrier()

    codes, shown = _on_two(tmp_path, work)
    assert codes == [CODE, CODE]
    (line,) = shown.splitlines()
    assert line.startswith("Rank 0 waits in barrier #2 (")
    assert "rank 1 never calls it: it has waited since " in line
    assert "(data of Stuck), after all_reduce #1" in line
    assert not list(tmp_path.glob("trueloop-*")), "the folder in which they met is gone"


def test_ranks_that_meet_leave_nothing_behind(tmp_path: Path) -> None:
    codes, shown = _on_two(tmp_path, lambda _: dist.barrier())
    assert (codes, shown) == ([0, 0], "")
    assert not list(tmp_path.glob("trueloop-*"))


def test_a_slow_rank_is_waited_for(tmp_path: Path) -> None:
    def work(rank: int) -> None:
        time.sleep(2.0 * rank)
        dist.barrier()

    assert _on_two(tmp_path, work) == ([0, 0], "")


def test_one_process_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    before = dist.all_reduce
    with watch_for_hangs(1.0, lambda _: None, CODE):
        assert dist.all_reduce is before


RECIPE = """
import os
import time

import torch
from torch import nn

from trueloop.data.dataset import Dataset
from trueloop.data.source import Splits
from trueloop.recipe.recipe import Recipe


class Damaged:
    asked = 0

    def __len__(self):
        return 64

    def __getitem__(self, index):
        self.asked += 1
        if os.environ.get("RANK") == "1" and self.asked > 60:
            time.sleep(1000)
        return torch.ones(4), index % 2


def data(request):
    return Splits(train=Dataset(Damaged()))


recipe = Recipe(name="damaged", data=data, model=lambda facts: nn.Linear(4, 2), batch=8, epochs=9)
"""


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 1])
def test_train_under_torchrun_says_which_rank_is_stuck_in_its_data(tmp_path: Path, workers: int) -> None:
    (tmp_path / "recipe.py").write_text(RECIPE, encoding="utf-8")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "trueloop"]
    words = ["train", "recipe.py", "--hang-after", "2s", "--set", f"workers={workers}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *launch, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("error PAR106") == 1, done.stderr
    assert f"exitcode: {CODE}" in done.stderr or f"exitcode  : {CODE}" in done.stderr, done.stderr
    assert "rank 1 never calls it: it has waited since " in " ".join(done.stderr.split())
    assert "(data of Damaged" in " ".join(done.stderr.split())
    assert not list(tmp_path.glob("trueloop-*"))
