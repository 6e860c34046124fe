"""kill -9 of both processes of a launched run, of a step of the user's own or of batches of the user's own loader:
resumed, it is bit-identical."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.parallel.launching import begun, trueloop, wait_for
from tests.torture.bits import differences, remains
from tests.torture.ranks import processes

GAN: Final = """\
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

DISTILLATION: Final = """\
import os, time
import torch
import torch.nn.functional as F
from torch import nn
from trueloop import Recipe, Splits, Tensors

def read(request):
    inputs = torch.randn(90, 6, generator=torch.Generator().manual_seed(0))
    labels = inputs[:, :3].argmax(1)
    return Splits(Tensors(inputs[:70], labels[:70]), Tensors(inputs[70:], labels[70:]))

def networks():
    teacher = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).requires_grad_(False)
    return {"teacher": teacher, "student": nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 3))}

def optimizers(models):
    return {"student": torch.optim.AdamW(models["student"].parameters(), lr=1e-2)}

def step(loop, batch):
    time.sleep(float(os.environ.get("SLOW", "0")))
    student, teacher = loop.models["student"], loop.models["teacher"]
    for part, share in loop.micros(batch):
        with torch.no_grad():
            soft = (teacher(part.inputs) / 2).softmax(1)
        output = student(part.inputs)
        loss = F.cross_entropy(output, part.targets)
        loss = loss + F.kl_div((output / 2).log_softmax(1), soft, reduction="batchmean")
        loop.backward(loss * share, "student")
    loop.memory["hardest"] = max(loop.memory.get("hardest", 0.0), float(loss.detach()))
    loop.apply("student", clip=1.0)
    return {"loss": loss}

def evaluate(models, batch):
    return {"accuracy": (models["student"](batch.inputs).argmax(1) == batch.targets).float().mean()}

recipe = Recipe(
    name="own", model=networks, data=read, step=step, optimizers=optimizers, evaluate=evaluate, metric="accuracy",
    epochs=8, batch=14, accumulate=2, log_every=2, save_every=3, evaluate_every=4, trackers=(), device="cpu",
    statistics_every=0,
)
"""
LOADER: Final = """\
import os, random, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from trueloop import Recipe, Splits

inputs = torch.randn(90, 6, generator=torch.Generator().manual_seed(0))

class Rows(Dataset):
    def __init__(self, first, last):
        self.rows = range(first, last)
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, number):
        time.sleep(float(os.environ.get("SLOW", "0")) / 14)
        row = inputs[self.rows[number]]
        return row + 0.1 * torch.randn(6) + 0.01 * random.random(), int(row[:3].argmax())

def read(request):
    return Splits(DataLoader(Rows(0, 70), batch_size=14, shuffle=True), DataLoader(Rows(70, 90), batch_size=10))

recipe = Recipe(
    name="own", model=lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)),
    data=read, epochs=8, batch=14, lr=1e-2, clip=1.0, ema=0.9, log_every=2, save_every=3, evaluate_every=4, trackers=(),
    device="cpu", statistics_every=0,
)
"""


@pytest.mark.long
@pytest.mark.parametrize("recipe", [GAN, DISTILLATION, LOADER], ids=["gan", "distillation", "loader"])
def test_both_processes_killed_and_resumed_are_bit_identical(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(recipe, encoding="utf-8")
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
