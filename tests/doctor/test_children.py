"""Processes that a checked script starts itself: watched, in one report, and otherwise as without trueloop."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.test_as_python import both, same_up_to_the_report, write
from trueloop.doctor.children import _Report
from trueloop.doctor.watch_options import WatchOptions
from trueloop.usercode.settings import Settings

WORK = """
    import os
    import sys
    import torch
    from torch import nn

    def fit(rank=0, fails=False):
        torch.manual_seed(0)
        x, y = torch.randn(64, 8), torch.randn(64, 1)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(6):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"loss {loss.item():.6f}", flush=True)
        if fails:
            raise ValueError("of the user's")

    def fit_and_leave():
        fit()
        os._exit(7)

    if __name__ == "__main__":
        fit()
        sys.exit(3)
"""

FORK = "p = multiprocessing.get_context('fork').Process(target=fit, args=(0, {fails})); p.start(); p.join()"
STARTS = {
    "fork": f"{FORK.format(fails=False)}; print(p.exitcode, vars(p).get('run'))",
    "left at once": "p = multiprocessing.get_context('fork').Process(target=fit_and_leave); p.start(); p.join(); "
    "print(p.exitcode)",
    "not joined": "multiprocessing.get_context('spawn').Process(target=fit).start()",
    "failing": f"{FORK.format(fails=True)}; print(p.exitcode)",
    "spawn": "torch.multiprocessing.spawn(fit, nprocs=1)",
    "pool, ended by force": "pool = multiprocessing.get_context('fork').Pool(1); print(pool.map(fit, [0])); "
    "pool.terminate(); pool.join()",
    "pool of torch": "pool = torch.multiprocessing.get_context('spawn').Pool(1); print(pool.map(fit, [0])); "
    "pool.close(); pool.join()",
    "executor": "print(list(concurrent.futures.ProcessPoolExecutor(1).map(fit, [0])))",
    "program": "print(subprocess.call([sys.executable, 'work.py'], env={**os.environ, 'OWN': '1'}))",
    "shell": "print(os.system(f'{sys.executable} work.py'))",
}


def _script(folder: Path, start: str) -> None:
    write(folder / "work.py", WORK)
    names = "import concurrent.futures, multiprocessing, os, subprocess, sys, torch, torch.multiprocessing\n"
    names += "from work import fit, fit_and_leave\n"
    write(folder / "train.py", f"{names}if __name__ == '__main__':\n    {start}\n")


RARE = ("left at once", "not joined", "pool of torch", "program", "shell")  # each starts Python and torch anew
LONG = pytest.mark.long


@pytest.mark.parametrize("start", [pytest.param(one, marks=LONG if one in RARE else ()) for one in STARTS])
def test_training_in_a_started_process_is_watched(tmp_path: Path, start: str) -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    _script(tmp_path, STARTS[start])
    report = same_up_to_the_report(*both(tmp_path, "train.py"))
    assert "GRD101" in report
    assert "work.py:13" in report
    assert "1 error in 6 steps of Sequential" in report
    left = set(os.listdir(tempfile.gettempdir())) - before
    assert not [name for name in left if name.startswith("trueloop-children")]


def test_a_process_reports_before_os_exit_but_not_from_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[object] = []
    monkeypatch.setattr(os, "_exit", happened.append)
    report = _Report(str(tmp_path), WatchOptions((), (), None, None, Settings()))
    monkeypatch.setattr(report, "finish", lambda _: happened.append("report"))
    report.finish_before_exit()
    leave: Any = os._exit
    leave(3)
    assert happened == ["report", 3]
    thread = threading.Thread(target=leave, args=(4,))
    thread.start()
    thread.join()
    assert happened == ["report", 3, 4]


def _checked(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "trueloop", "check", "--no-run", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300).stderr


def test_each_task_of_a_pool_that_trains_is_a_training_of_its_own(tmp_path: Path) -> None:
    _script(tmp_path, "pool = multiprocessing.get_context('fork').Pool(1); pool.map(fit, [0, 1]); pool.terminate()")
    report = _checked(tmp_path, "--steps", "3", "train.py")
    assert "1 error in 12 steps of Sequential" in report  # cut by --steps, a task would never return


def test_a_task_that_fails_in_a_pool_fails_as_without_trueloop(tmp_path: Path) -> None:
    _script(tmp_path, "multiprocessing.get_context('fork').Pool(1).starmap(fit, [(0, True)])")
    report = same_up_to_the_report(*both(tmp_path, "train.py"))
    assert "GRD101" in report


def test_a_program_that_cannot_be_watched_is_named_and_the_check_fails(tmp_path: Path) -> None:
    """A file that only prints stands for the training: that is all that is seen of one."""
    write(tmp_path / "work.py", "print('loss 0.1')")
    start = "print(subprocess.call([sys.executable, '-I', 'work.py']))"
    write(tmp_path / "train.py", f"import subprocess, sys\n{start}\n")
    command = [sys.executable, "-m", "trueloop", "check", "--no-run", "train.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 1
    assert ended.stdout == "loss 0.1\n0\n"
    assert ended.stderr.startswith("! nothing was checked: ")
    assert "-I work.py` could not be watched; it ran in another Python" in ended.stderr


def test_a_program_without_torch_is_watched_and_prints_nothing_more(tmp_path: Path) -> None:
    write(tmp_path / "work.py", "import sys\nprint('torch' in sys.modules)")
    write(tmp_path / "train.py", "import subprocess, sys\nprint(subprocess.call([sys.executable, 'work.py']))\n")
    report = same_up_to_the_report(*both(tmp_path, "train.py"))
    assert "nothing to check" in report
    assert "Traceback" not in report


CODE = "import os, torch; print(torch.ones(2), os.environ)"
QUIET = {
    "a program without training": f"subprocess.call([sys.executable, '-c', '{CODE}'])",
    "a pool without training": "pool = multiprocessing.get_context('fork').Pool(1); print(pool.map(abs, [-1])); "
    "pool.terminate()",
    "workers of a loader": "print(len(list(torch.utils.data.DataLoader(torch.arange(8), num_workers=1))))",
}


@pytest.mark.parametrize("start", QUIET)
def test_a_process_without_training_says_nothing(tmp_path: Path, start: str) -> None:
    _script(tmp_path, QUIET[start])
    assert "nothing to check" in same_up_to_the_report(*both(tmp_path, "train.py"))
