"""Batches that are copied to a CUDA device are still known there: whose they are, in which order, and what is wrong
with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.gpu.test_cuda import run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
y = {labels}
x = torch.randn(5, 12)[y] + torch.randn(400, 12)
{spoil}
train = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=32, shuffle={shuffle}, pin_memory=True)
valid = DataLoader(TensorDataset(x[{start}:], y[{start}:]), batch_size=40, pin_memory=True)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    for xb, yb in train:
        xb, yb = xb.cuda(non_blocking=True), yb.cuda(non_blocking=True)
        optimizer.zero_grad()
        out = model(xb)
        nn.functional.cross_entropy(out, yb).backward()
        optimizer.step()
    hits = torch.zeros((), device="cuda")
    with torch.no_grad():
        for xb, yb in valid:
            out = model(xb.cuda())
            hits += (out.argmax(1) == yb.cuda()).sum()
"""
MIXED, SORTED = "torch.randint(0, 5, (400,))", "torch.arange(5).repeat_interleave(80)"
OURS = {
    "train-validation-overlap",
    "not-shuffled",
    "same-order-every-epoch",
    "nan-or-inf-in-inputs",
    "single-class-batches",
    "nan-or-inf",
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"start": 280}, {("train-validation-overlap", 9)}),
        ({"labels": SORTED, "shuffle": False}, {("not-shuffled", 8)}),
        ({"shuffle": False}, {("same-order-every-epoch", 8)}),
        ({"spoil": "x[3, 2] = float('nan')"}, {("nan-or-inf-in-inputs", 16)}),
        ({"spoil": "x[380, 2] = float('inf')"}, {("nan-or-inf-in-inputs", 22)}),
    ],
)
def test_batches_on_the_device(tmp_path: Path, changes: dict[str, object], expected: set[tuple[str, int]]) -> None:
    usual = {"labels": MIXED, "shuffle": True, "start": 320, "spoil": ""}
    _, report = run(tmp_path, SCRIPT.format(**{**usual, **changes}), watched=True)
    assert {(finding["name"], finding["line"]) for finding in report["findings"] if finding["name"] in OURS} == expected
