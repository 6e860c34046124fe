"""Real launches: the launcher is forked from this warm process, its ranks are processes like any other."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import in_child
from tests.parallel.hosts import Host, move_into
from trueloop.cli.main import main

__all__ = ["RECIPE", "Ended", "about", "begun", "losses", "recipe_in", "trueloop", "wait_for"]

RECIPE = """\
import os, signal, time
import torch
from torch import nn
from trueloop import Recipe, Splits, Tensors

def read(request):
    draws = torch.Generator().manual_seed(0)
    inputs = torch.randn(90, 8, generator=draws)
    targets = (inputs[:, 0] > 0).long()
    return Splits(Tensors(inputs[:70], targets[:70]), Tensors(inputs[70:], targets[70:]))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)
        self.seen = 0

    def forward(self, x):
        self.seen += self.training
        if self.training and os.environ.get("GUILTY") == os.environ.get("RANK", "-"):
            fault(self.seen)
        if self.training and "SLOW" in os.environ:
            time.sleep(0.02)
        return self.layer(x)

def fault(seen):
    pass

recipe = Recipe(
    name="shared", model=Net, data=read, epochs=4, batch=16, lr=0.1, log_every=1, save_every=4, trackers=(), device="cpu"
)
"""  # noqa: E501


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def recipe_in(folder: Path, fault: str = "pass") -> Path:
    """A folder with shared.py. `fault`: what the guilty rank does in its nth training forward, as a line of Python that
    knows `seen`."""
    folder.mkdir(exist_ok=True)
    (folder / "shared.py").write_text(RECIPE.replace("    pass\n", f"    {fault}\n"), encoding="utf-8")
    return folder


def trueloop(folder: Path, *words: str, **environment: str) -> Ended:
    """The command, to its end."""
    out, err = folder / "stdout.txt", folder / "stderr.txt"
    code = in_child(lambda: _be(folder, words, environment, out, err))
    return Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@contextmanager
def begun(
    folder: Path, *words: str, name: str = "", host: Host | None = None, **environment: str
) -> Iterator[tuple[int, Callable[[], Ended]]]:
    """The command, going on beside us, perhaps on another host: its process, and how to wait for its end."""
    out, err = folder / f"stdout{name}.txt", folder / f"stderr{name}.txt"
    child = os.fork()
    if child == 0:
        if host is not None:
            move_into(host)
        os._exit(_be(folder, words, environment, out, err))
    waited: list[int] = []

    def end() -> Ended:
        if not waited:
            waited.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return Ended(waited[0], out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    try:
        yield child, end
    finally:
        if not waited:
            os.kill(child, signal.SIGTERM)
            end()


def _be(folder: Path, words: tuple[str, ...], environment: dict[str, str], out: Path, err: Path) -> int:
    os.chdir(folder)
    os.environ.update({"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **environment})
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    return code


def wait_for(file: Path, text: str, seconds: float = 120.0) -> None:
    """Until somebody has written it there."""
    until = time.monotonic() + seconds
    while not file.is_file() or text not in file.read_text(encoding="utf-8"):
        assert time.monotonic() < until, f"{text!r} has not come"
        time.sleep(0.05)


def about(folder: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "runs" / name / "run.json").read_text(encoding="utf-8"))
    return found


def losses(folder: Path, name: str) -> dict[int, float]:
    """Step -> loss; of a step that was done again, the last."""
    rows = [
        json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return {row["step"]: row["loss"] for row in rows if row["kind"] == "train"}
