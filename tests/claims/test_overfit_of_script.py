"""overfit-one-batch on scripts: the loader hands out the same samples. Healthy scripts never fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims.subjects import try_script

NAME = "overfit-one-batch"
SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(128, 20)
y = x[:, :4].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 4)SOFTMAX)
decoder = nn.Linear(4, 20)
optimizer = torch.optim.Adam([*model.parameters(), *decoder.parameters()], lr=RATE, weight_decay=1e-2)
for epoch in range(3):
    for a, b in loader:
        optimizer.zero_grad()
        noise = torch.randn_like(a)SCALE
        loss = LOSS
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(sum((model(a).argmax(1) == b).sum().item() for a, b in loader))
"""
SHIFTED = "(b - 1.5).expand(len(b), -1)"
# Cosines of at most 1 cannot give a loss of zero, and its targets are the places in the batch.
COSINES = "nn.functional.normalize(model(a)) @ nn.functional.normalize(model(a)).T"
CONTRASTIVE = f"nn.functional.cross_entropy({COSINES}, torch.arange(len(b)))"
CE = "nn.functional.cross_entropy(model(a), b)"


def script(loss: str = CE, *, softmax: bool = False, rate: str = "1e-2", draws: bool = False) -> str:
    text = SCRIPT if draws else SCRIPT.replace("torch.randn_like(a)SCALE", "a")
    text = text.replace("SCALE", "").replace("SOFTMAX", ", nn.Softmax(1)" if softmax else "")
    return text.replace("LOSS", loss).replace("RATE", rate)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (script(), "on the same 8 samples"),
        (script("nn.functional.cross_entropy(model(a.view(32, 20)), b)"), "on the same 32 samples"),
        (script("nn.functional.cross_entropy(model(a), b, label_smoothing=0.2)"), "with the targets exchanged"),
    ],
)
def test_scripts_that_memorize(tmp_path: Path, text: str, said: str) -> None:
    proof = try_script(NAME, tmp_path, text)
    assert proof.result == "holds", proof
    assert said in proof.measured


@pytest.mark.parametrize(
    "text",
    [
        script(softmax=True),
        script("nn.functional.cross_entropy(model(a * 0), b)"),
        script(f"nn.functional.mse_loss(model(a)[:, :1].expand(-1, len(b)), {SHIFTED})"),  # every answer, every target
    ],
)
def test_scripts_that_cannot(tmp_path: Path, text: str) -> None:
    proof = try_script(NAME, tmp_path, text)
    assert proof.result == "fails", proof


@pytest.mark.parametrize(
    "text",
    [
        script("nn.functional.mse_loss(decoder(model(a)), a)"),  # an autoencoder: four numbers for twenty
        script("nn.functional.mse_loss(decoder(model(a + noise)), noise)", draws=True),
        script(CONTRASTIVE),
        "import torch\nx = torch.ones(1, requires_grad=True)\no = torch.optim.SGD([x])\n(x * 2).backward()\no.step()\n",
        script() + "print(1 / 0)\n",
    ],
)
def test_what_has_a_floor_never_fails(tmp_path: Path, text: str) -> None:
    proof = try_script(NAME, tmp_path, text)
    assert proof.result != "fails", proof


def test_two_optimizers_are_not_one_loss(tmp_path: Path) -> None:
    text = script().replace("        optimizer.step()\n", "        optimizer.step()\n        other.step()\n")
    text = text.replace("for epoch", "other = torch.optim.SGD(model.parameters(), lr=0.0)\nfor epoch", 1)
    proof = try_script(NAME, tmp_path, text)
    assert proof.result == "unproved"
    assert "not applicable: several optimizers" in proof.measured
