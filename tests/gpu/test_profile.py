"""`trueloop profile` on a real CUDA device: busy share, kernels, copies, memory, and a script whose numbers stay as
they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
torch.use_deterministic_algorithms(False)
def train(width, batch, steps, move):
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(batch, width), torch.randint(0, 10, (batch,))
    if not move:
        inputs, targets = inputs.cuda(), targets.cuda()
    for _ in range(steps):
        x, y = inputs.cuda(), targets.cuda()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return model, loss
"""


def profile(folder: Path, text: str, *options: str) -> dict[str, Any]:
    (folder / "train.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "trueloop",
        "profile",
        *options,
        "--format",
        "json",
        "--output",
        "report.json",
        "train.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads((folder / "report.json").read_text())
    assert not read["failures"]
    return read


def test_small_kernels_are_launch_or_python_bound_and_a_graph_would_help(tmp_path: Path) -> None:
    read = profile(tmp_path, MODEL + "train(64, 32, 4000, False)\n")
    assert read["verdict"]["kind"] in ("launch", "python")
    assert read["busy_share"] < 0.7
    assert read["host"]["launches"] >= 10
    assert "graph" in {advice["key"] for advice in read["advice"]}
    assert {span["lane"] for span in read["timeline"]} >= {"host", "device"}


def test_large_products_are_compute_bound_and_counted(tmp_path: Path) -> None:
    read = profile(tmp_path, MODEL + "train(4096, 8192, 100, False)\n", "--steps", "40")
    assert read["verdict"]["kind"] == "compute"
    assert read["busy_share"] > 0.7
    first, last = 2 * 8192 * 4096 * 4096, 2 * 8192 * 4096 * 10
    assert read["work"]["flops"] == 2 * first + 3 * last  # the inputs need no gradient
    assert 0 < read["mfu"] < 1.2
    assert read["advice"][0]["key"] == "precision"


def test_copies_of_pageable_memory_are_copy_bound(tmp_path: Path) -> None:
    text = MODEL.replace("nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)", "nn.Linear(width, 10)")
    read = profile(tmp_path, text + "train(65_536, 512, 200, True)\n", "--steps", "40")
    assert read["verdict"]["kind"] == "copy"
    assert read["host"]["copying"] > 0
    assert read["steps"]["phases"]["copy"] > 0


def test_memory_is_predicted_and_measured_and_a_snapshot_is_written(tmp_path: Path) -> None:
    read = profile(tmp_path, MODEL + "train(2048, 1024, 100, False)\n", "--steps", "40", "--snapshot", "memory.pickle")
    memory = read["memory"]
    parts = sum(memory[name] for name in ("parameters", "gradients", "buffers", "activations"))
    assert memory["parameters"] == 4 * (2048 * 2048 + 2048 + 2048 * 10 + 10)
    assert memory["measured"] >= 0.7 * parts
    assert (tmp_path / "memory.pickle").stat().st_size > 0


def test_waiting_for_the_device_is_a_phase_of_its_own(tmp_path: Path) -> None:
    text = MODEL.replace("        optimizer.step()\n", "        optimizer.step()\n        loss.item()\n")
    read = profile(tmp_path, text + "train(4096, 8192, 100, False)\n", "--steps", "40")
    assert read["steps"]["phases"]["device"] > 0
    assert sum(read["steps"]["phases"].values()) == pytest.approx(read["steps"]["seconds"])


def test_the_numbers_of_the_script_do_not_change(tmp_path: Path) -> None:
    text = (
        MODEL
        + "model, loss = train(256, 64, 100, False)\nprint(repr(loss.item()), repr(model[0].weight.double().sum().item()))\n"  # noqa: E501
    )
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    plain = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    ).stdout
    command = [sys.executable, "-m", "trueloop", "profile", "--steps", "40", "--to-end", "train.py"]
    watched = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True).stdout
    assert watched == plain
