"""Scripts that really run under the observer, each in a child of this warm process."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.conftest import in_child
from trueloop.doctor.launch import find_script, run
from trueloop.profile.build_profile import build_profile
from trueloop.profile.clock import TimedStep
from trueloop.profile.observer import Observer
from trueloop.results.profile import Profile

MLP = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters())
inputs, targets = torch.randn(64, 20), torch.randint(0, 3, (64,))
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
"""


@dataclass(frozen=True)
class Ran:
    profile: Profile
    printed: str
    steps: list[TimedStep]
    outcome: str
    over: bool


def line_of(text: str, mark: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if mark in line)


def profiled(folder: Path, text: str, **options: Any) -> Ran:
    (folder / "train.py").write_text(text, encoding="utf-8")

    def work() -> Ran:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = str(folder.parent)  # measured once for all tests
        printed = folder / "printed.txt"
        sys.stdout = printed.open("w", encoding="utf-8")
        observer = Observer(**{"steps": 30, "window": 2, **options})
        observer.install()
        outcome, error = run(find_script("train.py", ()))
        observer.remove()
        if error is not None:
            traceback.print_exception(error)
        sys.stdout.flush()
        made = build_profile(observer, "train.py")
        return Ran(made, printed.read_text(encoding="utf-8"), observer.clock.steps, outcome.reason, observer.over)

    ran: Ran = in_child(work)
    assert not ran.profile.failures, ran.profile.failures
    return ran


def plain(folder: Path, text: str) -> str:
    """What it prints unwatched."""
    (folder / "train.py").write_text(text, encoding="utf-8")

    def work() -> str:
        os.chdir(folder)
        torch.seed()
        printed = folder / "printed.txt"
        sys.stdout = printed.open("w", encoding="utf-8")
        run(find_script("train.py", ()))
        sys.stdout.flush()
        return printed.read_text(encoding="utf-8")

    said: str = in_child(work)
    return said
