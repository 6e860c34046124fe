"""kill -9 of both processes of a launched run whose step is the user's own: resumed, it is bit-identical."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.parallel.launching import begun, trueloop, wait_for
from tests.torture.bits import differences, remains
from tests.torture.ranks import processes

RECIPE: Final = """\
import os, time
import torch
import torch.nn.functional as F
from torch import nn
from trueloop import Recipe, Splits, Tensors

def read(request):
    points = torch.randn(90, 2, generator=torch.Generator().manual_seed(0)) + 3
    return Splits(Tensors(points[:70]), Tensors(points[70:]))

def networks():
    generator = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    return {"generator": generator, "critic": nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.2), nn.Linear(8, 1))}

def optimizers(models):
    return {name: torch.optim.Adam(models[name].parameters(), lr=1e-3) for name in models}

def step(loop, batch):
    time.sleep(float(os.environ.get("SLOW", "0")))
    generator, critic, real = loop.models["generator"], loop.models["critic"], batch.inputs
    fake = generator(torch.randn(len(real), 4))
    loop.memory["seen"] = loop.memory.get("seen", 0.0) + real.sum()
    loss_c = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
    loop.update(loss_c, "critic", clip=1.0)
    loss_g = F.softplus(-critic(fake)).mean()
    loop.update(loss_g, "generator")
    return {"critic": loss_c, "generator": loss_g}

def evaluate(models):
    fake = models["generator"](torch.randn(16, 4))
    return {"distance": (fake.mean(0) - 3).norm()}

recipe = Recipe(
    name="own", model=networks, data=read, step=step, optimizers=optimizers, evaluate=evaluate, metric="distance",
    lower_is_better=("distance",), epochs=8, batch=14, ema=0.9, log_every=2, save_every=3, evaluate_every=4,
    trackers=(), device="cpu", statistics_every=0,
)
"""


@pytest.mark.long
def test_both_processes_killed_and_resumed_are_bit_identical(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(RECIPE, encoding="utf-8")
    launch = ("launch", "--nproc", "2", "--")
    ended = trueloop(tmp_path, *launch, "train", "own.py", "--name", "whole")
    assert ended.code == 0, ended.err
    with begun(tmp_path, *launch, "train", "own.py", "--name", "cut", SLOW="0.05") as (launcher, end):
        wait_for(tmp_path / "runs" / "cut" / "metrics.jsonl", '"step": 16')
        victims = processes(launcher)
        assert len(victims) == 2
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        assert end().code != 0
    ended = trueloop(tmp_path, *launch, "resume", "runs/cut")
    assert ended.code == 0, ended.err
    whole, cut = (remains(tmp_path / "runs" / name) for name in ("whole", "cut"))
    assert whole["result"]["step"] == 40
    assert not list(differences(whole, cut))
