"""Datasets are rehearsed beside CUDA only where the loader itself copies the process; and the run is the run without
it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

SCRIPT = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Noisy(Dataset):
    def __init__(self):
        self.x = torch.randn(64, 8)
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index] + torch.from_numpy(self.rng.normal(0, 0.1, 8)).float(), self.x[index].sum()


model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers={workers}, multiprocessing_context={context})
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.cuda()).squeeze(1), y.cuda())
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
"""


def run(folder: Path, workers: int, *, watched: bool) -> tuple[str, dict[str, object]]:
    context = "'fork'" if workers else "None"
    (folder / "train.py").write_text(SCRIPT.format(workers=workers, context=context), encoding="utf-8")
    plain = [sys.executable, "train.py"]
    check = [
        sys.executable,
        "-m",
        "trueloop",
        "check",
        "--select",
        "DAT104,DAT107",
        "--fail-on",
        "never",
        "--format",
        "json",
    ]
    command = [*check, "--output", "report.json", "train.py"] if watched else plain
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "report.json").read_text(encoding="utf-8")) if watched else {}


@pytest.mark.parametrize(("workers", "found"), [(2, ["workers-share-a-seed"]), (0, [])])
def test_a_rehearsal_beside_cuda(workers: int, found: list[str], tmp_path: Path) -> None:
    printed, report = run(tmp_path, workers, watched=True)
    findings = report["findings"]
    assert isinstance(findings, list)
    assert [finding["name"] for finding in findings] == found
    assert ("a process that uses CUDA cannot be forked" in json.dumps(report)) == (not workers)
    alone, _ = run(tmp_path, workers, watched=False)
    assert [line for line in printed.splitlines() if line.startswith(("0x", "-0x"))] == alone.splitlines()
