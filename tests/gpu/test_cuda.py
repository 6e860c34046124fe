"""On a real CUDA device: the same findings and numbers, and no wait for the device that the script did not ask for."""

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

MODEL = """\
import sys, warnings
import torch
from torch import nn
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
device = "cuda"
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
centres = torch.randn(10, 64, device=device)
def batch():
    y = torch.randint(0, 10, (32,), device=device)
    return centres[y] + torch.randn(32, 64, device=device), y
"""

HEALTHY = """\
for step in range(60):
    x, y = batch()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
model.eval()
with torch.no_grad():
    for _ in range(4):
        x, y = batch()
        model(x).argmax(1)
"""

PRINTED = """\
import hashlib
weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
print(loss.item().hex(), hashlib.sha256(weights).hexdigest(), torch.cuda.get_rng_state().sum().item())
"""


def run(folder: Path, text: str, *, watched: bool) -> tuple[str, dict[str, Any]]:
    """stdout, and the report."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "trueloop",
        "check",
        "--fail-on",
        "never",
        "--format",
        "json",
        "--output",
        "report.json",
    ]
    command = [*command, "train.py"] if watched else [sys.executable, "train.py"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads((folder / "report.json").read_text()) if watched else {}


def found(report: dict[str, Any]) -> set[tuple[str, int]]:
    return {(f["name"], f["line"]) for f in report["findings"] if f["severity"] != "advice"}


def test_a_healthy_loop_has_the_same_numbers_and_no_finding(tmp_path: Path) -> None:
    plain, _ = run(tmp_path, MODEL + HEALTHY + PRINTED, watched=False)
    checked, report = run(tmp_path, MODEL + HEALTHY + PRINTED, watched=True)
    assert checked == plain
    assert found(report) == set()


def test_amp_with_a_scaler_has_the_same_numbers_and_no_finding(tmp_path: Path) -> None:
    loop = """\
scaler = torch.amp.GradScaler("cuda")
for step in range(40):
    x, y = batch()
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
    plain, _ = run(tmp_path, MODEL + loop + PRINTED, watched=False)
    checked, report = run(tmp_path, MODEL + loop + PRINTED, watched=True)
    assert checked == plain
    assert found(report) == set()


def test_classic_bugs_are_found_on_the_device(tmp_path: Path) -> None:
    loop = """\
losses = []
for step in range(40):
    x, y = batch()
    out = model(x).softmax(1)
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
with torch.no_grad():
    for _ in range(4):
        x, y = batch()
        (model(x).argmax(1) == y).float().mean().item()
"""
    text = MODEL + loop
    lines = text.splitlines()
    _, report = run(tmp_path, text, watched=True)
    expected = {
        "softmax-before-cross-entropy": ".softmax(1)",
        "gradients-never-cleared": "loss.backward()",
        "graph-never-freed": "losses.append(loss)",
        "evaluated-in-train-mode": "argmax(1) == y",
    }
    assert {name: lines[line - 1] for name, line in found(report)}.keys() == expected.keys()
    for name, line in found(report):
        assert expected[name] in lines[line - 1], name


def test_watching_waits_for_the_device_no_more_often_than_the_script_does(tmp_path: Path) -> None:
    """Waits that torch reports itself, in fifty steps after the first looks are over: at most a handful of steps has
    any.

    What counts is the first wait of a step: it lets the queue of the device run dry, and further reads find it dry.
    """
    loop = """\
def train(steps):
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
torch.use_deterministic_algorithms(False)
train(110)
torch.cuda.set_sync_debug_mode("warn")
waited = 0
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(50):
        before = len(caught)
        train(1)
        waited += len(caught) > before
torch.cuda.set_sync_debug_mode("default")
print(waited)
"""
    plain, _ = run(tmp_path, MODEL + loop, watched=False)
    checked, _ = run(tmp_path, MODEL + loop, watched=True)
    assert int(checked) - int(plain) <= 8, f"steps with a wait: plain {plain}, watched {checked}"


def test_out_of_memory_and_a_tensor_left_on_the_cpu_are_explained(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MODEL + "model(torch.randn(32, 64))\n", encoding="utf-8")
    command = [sys.executable, "-m", "trueloop", "check", "--format", "json", "--output", "report.json", "train.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1
    assert "cpu" in json.loads((tmp_path / "report.json").read_text())["crash"]["message"]
    (tmp_path / "train.py").write_text(MODEL + "big = torch.empty(1 << 42, device=device)\n", encoding="utf-8")
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "memory" in json.loads((tmp_path / "report.json").read_text())["crash"]["kind"]
