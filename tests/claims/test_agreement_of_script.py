"""cpu-and-gpu-agree on scripts, on a machine without a GPU: the second run has a variable set instead, as a GPU would
change what a script does. tests/gpu/test_script_agreement.py does it with a real one."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from tests.claims.subjects import try_script
from trueloop.claims.cpu_and_gpu_agree import CpuAndGpuAgree
from trueloop.claims.device_comparison import Limits, first_difference_of_devices, why_incomparable
from trueloop.claims.device_steps import DeviceStep, DeviceSteps
from trueloop.claims.subject import ScriptSubject
from trueloop.experiment.folder_copy import snapshot
from trueloop.results.proof import Proof

NAME = "cpu-and-gpu-agree"
SCRIPT = """\
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

gpu = "PLANTED" in os.environ
torch.manual_seed(0)
x, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Identity(), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for a, b in loader:
        a = a + 0.1 * torch.randn_like(a)
        EXTRA
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        LOSS
        loss.backward()
        BEFORE
        optimizer.step()
"""


def script(extra: str = "pass", loss: str = "pass", before: str = "pass") -> str:
    return SCRIPT.replace("EXTRA", extra).replace("LOSS", loss).replace("BEFORE", before)


def tried(scratch: Path, text: str) -> Proof:
    (scratch / "train.py").write_text(text, encoding="utf-8")
    with chdir(scratch), snapshot(scratch / "train.py") as folder, TemporaryDirectory() as results:
        subject = ScriptSubject(("train.py",), None, Path(results), folder)
        return CpuAndGpuAgree().compare_runs(subject, {"PLANTED": "1"}, "cpu")


def test_a_machine_without_a_gpu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    proof = try_script(NAME, tmp_path, script())
    assert proof.result == "unproved"
    assert proof.measured.startswith("there is no GPU here")


def test_a_healthy_script_holds_and_one_that_scales_its_inputs_fails(tmp_path: Path) -> None:
    healthy = tried(tmp_path, script())
    assert healthy.result == "holds", healthy
    assert "of 3 steps agree" in healthy.measured
    planted = tried(tmp_path, script("a = a * 2 if gpu else a"))
    assert planted.result == "fails", planted
    assert "the inputs of Sequential already differ" in planted.measured


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (script(loss="loss = loss * 1.01 if gpu else loss"), "all layer outputs are equal"),
        (script(before="model[0].weight.grad.mul_(1.05 if gpu else 1)"), "a gradient differs by"),
        (script("model[2].forward = torch.tanh if gpu else torch.relu"), "2 (ReLU) is the first"),
        (script("model[4].weight.data.mul_(1.5 if gpu and optimizer.state else 1)"), "in step 2"),
    ],
)
def test_faults_of_one_device(tmp_path: Path, text: str, said: str) -> None:
    proof = tried(tmp_path, text)
    assert proof.result == "fails", proof
    assert said in proof.measured


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (script().replace("batch_size=16", "batch_size=32 if gpu else 16"), "loaders yield different batches"),
        (script().replace("16", "(32 if gpu else 16)"), "trains a different model"),
        (script("a, b = (a[:8], b[:8]) if gpu else (a, b)"), "inputs of different shapes"),
        (script().replace("manual_seed(0)", "manual_seed(int(gpu))"), "loaders yield different batches"),
        (script("loss = model(a).sum(); loss.backward() if gpu else None"), "calls `backward` 2 times instead of 1"),
        (script().replace("torch.manual_seed(0)", "torch.seed()"), "two runs without a GPU already differ"),
        ("if not __import__('os').environ.get('PLANTED'): raise SystemExit('no GPU')", "took no step without a GPU"),
    ],
)
def test_scripts_that_do_something_else_there_are_not_judged(tmp_path: Path, text: str, said: str) -> None:
    proof = tried(tmp_path, text)
    assert proof.result == "unproved", proof
    assert said in proof.measured


def test_autocast_and_scalers_are_off(tmp_path: Path) -> None:
    text = script().replace(
        "loss = nn", "with torch.autocast('cpu', torch.bfloat16, enabled=gpu):\n            loss = nn"
    )
    proof = tried(tmp_path, text)
    assert proof.result == "holds", proof


def step(loss: float, gradient: float = 1.0) -> DeviceStep:
    return DeviceStep([loss], gradients=[torch.tensor([gradient, 0.5])], parameters=["(2,) float"])


def test_a_loss_may_differ_by_what_was_measured() -> None:
    one, other, limits = DeviceSteps([step(1.0)]), DeviceSteps([step(1.0005)]), Limits(1e-3, (1e-3,))
    assert not why_incomparable(one, other)
    assert first_difference_of_devices(one, other, limits) is None
    assert first_difference_of_devices(one, other, Limits(1e-4, (1e-3,))) is not None
    assert first_difference_of_devices(one, DeviceSteps([step(float("nan"))]), limits) is not None
    assert Limits(0.5, (1e-3,)).too_wide
