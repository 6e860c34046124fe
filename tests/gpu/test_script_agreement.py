"""cpu-and-gpu-agree on scripts, with a real GPU: healthy ones hold, also where they draw on the device; a fault of the
GPU's branch fails; what cannot be compared is not judged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.claims.subjects import try_script

NAME = "cpu-and-gpu-agree"
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

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
x, y = torch.randn(64, 3, 12, 12), torch.randint(0, 3, (64,))
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, pin_memory=device.type == "cuda")
net = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(1600, 3)]
MODEL
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for a, b in loader:
        a, b = a.to(device), b.to(device)
        EXTRA
        optimizer.zero_grad()
        STEP
"""
PLAIN = "loss = nn.functional.cross_entropy(model(a), b); loss.backward(); optimizer.step()"
AMP = """scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
        with torch.autocast(device.type, torch.float16, enabled=device.type == "cuda"):
            loss = nn.functional.cross_entropy(model(a), b)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()"""
ON_DEVICE = """with device:
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(1600, 3))"""


def script(model: str = "model = nn.Sequential(*net).to(device)", extra: str = "pass", step: str = PLAIN) -> str:
    return SCRIPT.replace("MODEL", model).replace("EXTRA", extra).replace("STEP", step)


@pytest.mark.parametrize(
    "text",
    [
        script(),
        script("model = torch.compile(nn.Sequential(*net).to(device))"),
        script(step=AMP),
        script(ON_DEVICE, "a = a + 0.1 * torch.randn(a.shape, device=device) + 0.1 * torch.rand_like(a)"),
        script(extra="a = a * torch.empty(len(a), 1, 1, 1, device=device).bernoulli_(0.9)"),
        script("model = nn.Sequential(nn.Flatten(2), nn.LSTM(144, 16, 2, dropout=0.5)).to(device)",
               step="loss = model(a)[0].square().mean(); loss.backward(); optimizer.step()"),
        script("torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True\n"
               "model = nn.Sequential(nn.Flatten(), nn.Linear(432, 2048), nn.ReLU(), nn.Linear(2048, 3)).to(device)"),
    ],
)  # fmt: skip
def test_healthy_scripts_hold(tmp_path: Path, text: str) -> None:
    proof = try_script(NAME, tmp_path, text)
    assert proof.result == "holds", proof


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (script("net[1] = nn.Identity(); model = nn.Sequential(*net).to(device)", "a = a * 2 if a.is_cuda else a"),
         "the inputs of Sequential already differ"),
        (script("net[2].forward = lambda h: h.tanh() if h.is_cuda else h.relu(); "
                "model = nn.Sequential(*net).to(device)"), "2 (ReLU) is the first"),
    ],
)  # fmt: skip
def test_faults_of_the_gpu(tmp_path: Path, text: str, said: str) -> None:
    proof = try_script(NAME, tmp_path, text)
    assert proof.result == "fails", proof
    assert said in proof.measured


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (script("model = nn.Sequential(*net)").replace("to(device)", "cpu()"), "trains on the CPU although"),
        (script(extra="a = a + torch.randn(a.shape, device=device, generator=torch.Generator(device))"), "generator"),
        (script("model = nn.Sequential(*net).cuda()"), "took no step without a GPU"),
        (script("model = nn.Sequential(*net).to(device, torch.float64 if device.type == 'cuda' else None)",
                "a = a.double() if a.is_cuda else a"), "different precision"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_not_judged(tmp_path: Path, text: str, said: str) -> None:
    proof = try_script(NAME, tmp_path, text)
    assert proof.result == "unproved", proof
    assert said in proof.measured
