"""`trueloop.log(name=value)`: in a loop of one's own, in a recipe's own code, and in a script that nobody watches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import trueloop
from trueloop.errors import Misuse
from trueloop.track.metrics import read_rows


def test_in_a_loop_of_ones_own(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with trueloop.session(
        "mine", steps=4, runs=tmp_path, log_every=2, trackers=(), hooks=(), rules=False, model=model,
        optimizer=optimizer,
    ) as run:  # fmt: skip
        for step in run.steps():
            trueloop.log(own=torch.tensor([float(step)]), other=1)
    rows = list(read_rows(tmp_path / "mine", ("train",)))
    assert [row.values["own"] for row in rows] == [0.5, 2.5]
    trueloop.log(own=object())  # nobody listens any more


def test_what_is_not_a_number_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(Misuse, match=r"trueloop\.log\(own=\.\.\.\) got a list"),
        trueloop.session("mine", steps=1, runs=tmp_path, trackers=(), hooks=(), rules=False, model=nn.Linear(1, 1)),
    ):
        trueloop.log(own=[1])


def test_a_script_that_nobody_watches_ignores_it_without_torch() -> None:
    code = "import sys, trueloop; trueloop.log(loss=object()); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
