"""A script under `trueloop check` is run as Python runs it: each script here is run by both; both must print the same
and end the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


def _run(folder: Path, *words: str) -> Ended:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=120)
    return Ended(done.returncode, done.stdout, done.stderr)


def both(folder: Path, *words: str) -> tuple[Ended, Ended]:
    """`python train.py` and `trueloop check train.py`, with its run folder where the script does not look."""
    runs = str(folder.with_name(f"{folder.name}-runs"))
    return _run(folder, *words), _run(folder, "-m", "trueloop", "check", "--runs", runs, *words)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")


def same_up_to_the_report(plain: Ended, checked: Ended) -> str:
    """The report: what check has printed more than Python."""
    assert checked.stdout == plain.stdout
    assert checked.stderr.startswith(plain.stderr), f"plain:\n{plain.stderr}\nchecked:\n{checked.stderr}"
    return checked.stderr.removeprefix(plain.stderr)


def test_the_world_a_script_wakes_up_in(tmp_path: Path) -> None:
    write(tmp_path / "scripts" / "near.py", "WORD = 'imported from beside the script'")
    write(
        tmp_path / "scripts" / "train.py",
        '''
        """Its docstring."""
        import atexit, inspect, os, pickle, sys, threading, time
        from dataclasses import dataclass
        import near

        @dataclass
        class Config:
            lr: float = 0.1

        print(near.WORD, sys.argv, sys.path[0], os.getcwd(), __name__, __file__, __spec__, __package__, __cached__, __doc__)
        print(sorted(globals()), type(__loader__).__name__, __builtins__, __annotations__)
        print(sys.modules["__main__"].Config is Config, pickle.loads(pickle.dumps(Config(0.5))), Config.__module__)
        print([name for name in os.environ if "TRUELOOP" in name.upper()], os.listdir())
        print(inspect.getsource(Config).splitlines()[0])
        atexit.register(print, "the exit handler ran")
        threading.Thread(target=lambda: (time.sleep(0.3), print("the thread came to its end"))).start()
        if __name__ == "__main__":
            sys.exit(3)
        ''',  # noqa: E501
    )
    plain, checked = both(tmp_path, "scripts/../scripts/train.py", "--epochs", "1", "-m", "--steps")
    assert plain.code == checked.code == 3
    assert "the exit handler ran" in plain.stdout
    assert "the thread came to its end" in plain.stdout
    assert "sys.exit(3)" in same_up_to_the_report(plain, checked)


@pytest.mark.long
def test_a_module_is_run_as_python_m_runs_it(tmp_path: Path) -> None:
    write(tmp_path / "pack" / "__init__.py", "print('the package is imported first, by name', __name__)")
    write(tmp_path / "pack" / "near.py", "WORD = 'imported relatively'")
    write(
        tmp_path / "pack" / "__main__.py",
        "from . import near\nimport sys\nprint(near.WORD, __name__, __package__)\nsys.exit('a last word')",
    )
    write(
        tmp_path / "pack" / "sub" / "train.py",
        """
        import sys
        from ..near import WORD
        print(WORD, sys.argv, sys.path[0], __name__, __package__, __spec__.name, __file__, __cached__, "pack.sub" in sys.modules)
        """,  # noqa: E501
    )
    plain, checked = both(tmp_path, "-m", "pack.sub.train", "one")
    assert plain.code == checked.code == 0, checked.stderr
    same_up_to_the_report(plain, checked)
    plain, checked = both(tmp_path, "-m", "pack")
    assert plain.code == checked.code == 1
    assert plain.stderr == "a last word\n"
    same_up_to_the_report(plain, checked)


CRASHES = """
import logging, threading, traceback, warnings
import torch
import torch.nn.functional as F
from torch import nn

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
    def forward(self, x):
        return torch.softmax(self.layer(x), dim=1)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(Inner(), nn.Dropout(0.5))
    def forward(self, x):
        return self.inner(x)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def step(size, classes=3):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(torch.randn(5, size)), torch.full((5,), classes - 1))
    loss.backward()
    optimizer.step()

step(4)
warnings.warn("a warning at its line")
F.dropout2d(torch.ones(3, 2))                        # torch warns of the line that calls it
F.softmax(torch.ones(3))                             # and so does this, by a deeper count
try:
    step(7)
except RuntimeError:
    traceback.print_exc()
    logging.exception("logged")
thread = threading.Thread(target=lambda: step(9), name="worker")
thread.start()
thread.join()

def closure():
    try:
        step(4, classes=11)
    except IndexError as first:
        try:
            net.load_state_dict({})
        except RuntimeError as second:
            group = ExceptionGroup("several", [first, second])
            raise ValueError("chained") from group

torch.optim.LBFGS(net.parameters()).step(closure)
"""


def test_a_traceback_is_line_for_line_the_one_of_python(tmp_path: Path) -> None:
    write(tmp_path / "train.py", CRASHES)
    plain, checked = both(tmp_path, "train.py")
    assert plain.code == checked.code == 1
    assert plain.stderr.count("Traceback") >= 5
    assert "ExceptionGroup" in plain.stderr
    assert "ValueError: chained" in same_up_to_the_report(plain, checked)


def test_a_syntax_error_looks_as_in_python(tmp_path: Path) -> None:
    write(tmp_path / "train.py", "print('never')\nx = (1\n")
    plain, checked = both(tmp_path, "./train.py")
    assert plain.code == checked.code == 1
    assert "Traceback" not in plain.stderr
    same_up_to_the_report(plain, checked)


def test_after_ctrl_c_there_is_a_report_and_the_process_dies_by_the_signal(tmp_path: Path) -> None:
    write(
        tmp_path / "train.py",
        """
        import atexit, os, signal
        atexit.register(print, "the exit handler ran")
        print("begun")
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**9):
            pass
        """,
    )
    plain, checked = both(tmp_path, "train.py")
    assert plain.code == checked.code == -signal.SIGINT
    assert "KeyboardInterrupt" in plain.stderr
    assert "interrupted" in same_up_to_the_report(plain, checked)


def test_sigterm_is_left_to_the_script(tmp_path: Path) -> None:
    write(
        tmp_path / "train.py",
        "import os, signal\nprint(signal.getsignal(signal.SIGTERM), flush=True)\nos.kill(os.getpid(), "
        "signal.SIGTERM)\n",
    )
    plain, checked = both(tmp_path, "train.py")
    assert plain.code == checked.code == -signal.SIGTERM
    assert checked.stdout == plain.stdout
    assert checked.stderr == plain.stderr


@pytest.mark.long
def test_children_of_every_kind_work_as_without_us(tmp_path: Path) -> None:
    write(
        tmp_path / "train.py",
        """
        import os, subprocess, sys
        import torch
        import torch.multiprocessing as mp
        import torch.nn.functional as F
        from torch import nn
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return torch.tensor([float(i)]), torch.tensor([float(i * i)])

        def train(rank, seed):
            torch.manual_seed(seed)
            model = nn.Linear(1, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for x, y in DataLoader(Squares(), batch_size=4):
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
            print("trained in", __name__, rank, model.weight.item(), flush=True)

        if __name__ == "__main__":
            for context in ("fork", "spawn"):
                print([x.sum().item() for x, _ in DataLoader(Squares(), batch_size=4, num_workers=1, multiprocessing_context=context)])
            sys.stdout.flush()
            mp.spawn(train, args=(1,), nprocs=1)
            child = os.fork()
            if child == 0:
                for _ in range(6):
                    train(9, 2)
                raise SystemExit(7)
            print("the forked child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            subprocess.run([sys.executable, "-c", "print('and a process', 1 + 1)"])
        """,  # noqa: E501
    )
    plain, checked = both(tmp_path, "train.py")
    assert plain.code == checked.code == 0, checked.stderr
    assert checked.stdout == plain.stdout
    assert "trained in __mp_main__ 0" in plain.stdout
    assert plain.stderr == ""
    assert checked.stderr.count(" applied; checking added ") <= 1
    assert "GRD" not in checked.stderr
