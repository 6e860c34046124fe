"""Every way to hang, on two real ranks: one paragraph that names the ranks, their collectives, the user's lines and the
cause."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.conftest import Checked, check_script
from tests.waiting import until
from trueloop.doctor.hang import HANG_AFTER
from trueloop.finding import Finding
from trueloop.session import hang_timeout

HEAD = """\
import os, signal, subprocess, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(1)
dist.all_reduce(x)
"""


def _checked(folder: Path, script: str) -> Checked:
    return check_script(folder, HEAD + script, ranks=2, hang_after=1.0, select=["PAR106"])


def _found(folder: Path, script: str) -> Finding:
    (finding,) = _checked(folder, script).findings
    assert "\n" not in finding.message, "one paragraph"
    return finding


def test_a_branch_on_the_rank_is_named_with_the_line_of_its_if(tmp_path: Path) -> None:
    found = _found(tmp_path, "if rank == 0:\n    dist.barrier()\ndist.all_reduce(x)\n")
    assert found.message == (
        "Collective 2 of the group differs between ranks: rank 0 waits in barrier #2 (train.py:10), because of the `if "
        "rank == 0:` at "
        "line 9; rank 1 waits in all_reduce #2 (train.py:11)."
    )


def test_a_rank_with_one_batch_more_is_still_in_the_loop_that_the_other_has_left(tmp_path: Path) -> None:
    loop = "for batch in DataLoader(torch.ones(4 + rank, 1)):\n    dist.all_reduce(batch)\n"
    found = _found(tmp_path, f"{loop}dist.barrier()\n")
    assert "rank 0 waits in barrier #6 (train.py:11); rank 1 waits in all_reduce #6 (train.py:10)" in found.message
    assert found.message.endswith(
        ": rank 1 is still in the loop on line 9, which rank 0 has left: it has more batches."
    )
    assert found.fix.startswith("Give every rank the same number of batches")


@pytest.mark.long
def test_a_rank_with_one_batch_more_than_one_that_has_ended(tmp_path: Path) -> None:
    found = _found(tmp_path, "for batch in DataLoader(torch.ones(4 + rank, 1)):\n    dist.all_reduce(batch)\n")
    assert (
        "all_reduce #6 (train.py:10), but rank 0 never calls it: its script ended, after all_reduce #5 (train.py:10)"
        in found.message
    )
    assert found.message.endswith(": rank 1 is still in the loop on line 9, so it has more batches.")


def test_an_exception_on_one_rank_is_named_with_its_line(tmp_path: Path) -> None:
    found = _found(tmp_path, "if rank == 1:\n    raise ValueError('a file is damaged')\ndist.all_reduce(x)\n")
    assert (
        "all_reduce #2 (train.py:11), but rank 1 never calls it: its script failed at train.py:10 (ValueError: a file"
        in found.message
    )
    assert found.fix == "Fix the failure of rank 1: the other ranks only wait for it."


def test_shapes_that_do_not_fit_are_named_with_their_sizes(tmp_path: Path) -> None:
    found = _found(tmp_path, "dist.all_reduce(torch.ones(3 + 2000 * rank))\n")
    assert "all_reduce #2 of 3 x float32 (train.py:9)" in found.message
    assert "all_reduce #2 of 2,003 x float32 (train.py:9)" in found.message
    assert found.fix == "Pass tensors of the same size and dtype on every rank."


LOADING = """\
class Damaged(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 5 and rank == 1:
            time.sleep(1000)
        return torch.ones(1)
for batch in DataLoader(Damaged(), batch_size=2, num_workers={workers}):
    dist.all_reduce(batch)
"""


def test_a_rank_stuck_in_its_dataset_is_named_with_the_line_there(tmp_path: Path) -> None:
    found = _found(tmp_path, LOADING.format(workers=0))
    assert found.message.startswith(
        "Rank 0 waits in all_reduce #4 (train.py:17), but rank 1 never calls it: it has waited since "
    )
    assert "for one batch, at train.py:14 (data of Damaged), after all_reduce #3 (train.py:17)" in found.message
    assert found.place is not None
    assert found.place.line == 14


def test_a_rank_stuck_in_a_worker_is_named_with_dataset_and_process_and_leaves_no_worker(tmp_path: Path) -> None:
    found = _found(tmp_path, LOADING.format(workers=1))
    assert "for one batch, at train.py:12 (data of Damaged, by worker process " in found.message
    worker = int(found.message.partition("worker process ")[2].split()[0])
    assert f"{worker} (asleep))" in found.message
    until(lambda: not Path(f"/proc/{worker}/fd").exists(), "a worker that hangs does not outlive its rank")


STOPPED = """\
open(f"{rank}.pid", "w").write(str(os.getpid()))
if rank == 1:
    subprocess.Popen(["sh", "-c", f"while test ! -s 0.pid || test -e /proc/$(cat 0.pid)/exe; \
do sleep 0.1; done; kill -9 {os.getpid()}"])
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGSTOP)
dist.all_reduce(x)
"""


def test_of_a_stopped_rank_the_others_say_since_when_it_is_silent_and_its_last_place(tmp_path: Path) -> None:
    checked = _checked(tmp_path, STOPPED)
    (found,) = checked.findings
    assert found.message.startswith(
        "Rank 0 waits in all_reduce #2 (train.py:14), but rank 1 never calls it: its process is stopped (SIGSTOP)"
    )
    assert "silent since " in found.message
    assert ", at train.py:12, after all_reduce #1 (train.py:8)" in found.message
    assert checked.verdict.notes == ("the report of rank 1 is missing: its process is stopped",)
    assert checked.verdict.outcome.reason == "hung"


SLOW = """\
class Slow(Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        time.sleep(0.2 * rank)
        return torch.ones(1)
for batch in DataLoader(Slow(), batch_size=16, num_workers={workers}):
    dist.all_reduce(batch)
"""


def test_a_slow_batch_is_no_hang_while_one_sample_follows_another(tmp_path: Path) -> None:
    checked = _checked(tmp_path, SLOW.format(workers=0))
    assert not checked.findings
    assert checked.verdict.outcome.reason == "finished"


def test_a_long_evaluation_is_told_as_waiting_and_the_run_goes_on(tmp_path: Path) -> None:
    checked = _checked(tmp_path, "if rank == 0:\n    time.sleep(3)\ndist.barrier()\n")
    assert not checked.findings
    assert checked.verdict.outcome.reason == "finished"
    (note,) = [line for line in checked.output.splitlines() if line.startswith("note: ")]
    assert " s in barrier #2 (train.py:11); rank 0 has been for " in note
    assert note.endswith(" s at train.py:10. The run continues.")


def test_watching_takes_one_thread_and_says_nothing_where_nobody_waits(tmp_path: Path) -> None:
    checked = _checked(
        tmp_path, "import threading\nprint([t.name for t in threading.enumerate() if 'trueloop' in t.name])\n"
    )
    assert not checked.findings
    assert "note:" not in checked.output
    assert checked.output.split("\n").count("['trueloop watches for ranks that hang']") == 2
    assert not [thread for thread in threading.enumerate() if "trueloop" in thread.name]


def test_the_default_is_the_same_with_and_without_torch() -> None:
    assert hang_timeout.HANG_AFTER == HANG_AFTER == 300.0


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60.0), ("60s", 60.0), ("1.5", 1.5), ("5min", 300.0), ("2m", 120.0), ("1h", 3600.0)]
)
def test_seconds_may_have_a_unit(text: str, seconds: float) -> None:
    assert hang_timeout.parse_seconds(text, "--hang-after") == seconds
