"""The precision rules on a real CUDA device: found at the right line, silent where it is right, the same numbers, and
hardly a wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.test_cuda import run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

HEAD = """\
import hashlib
import warnings
import torch
from torch import nn
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3{options})
centres = torch.randn(10, 64, device="cuda")
def batch():
    y = torch.randint(0, 10, (32,), device="cuda")
    return centres[y] + torch.randn(32, 64, device="cuda"), y
"""
PRINTED = """
print(hashlib.sha256(b"".join(p.detach().float().cpu().numpy().tobytes() for p in model.parameters())).hexdigest())
"""
HALF = """\
for step in range(20):
    x, y = batch()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
SCALED = """\
scaler = torch.amp.GradScaler("cuda")
for step in range({steps}):
    x, y = batch()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.{kind}):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
TWINS = """\
scaler = torch.amp.GradScaler("cuda")
for step in range(80):
    x, _ = batch()
    near = x + 0.1 * torch.randn_like(x)
    if step % 3 == 0:
        near[0] = x[0]
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        a, b = model(x), model(near)
    distance = (a.float() - b.float()).pow(2).sum(1).sqrt()
    loss = distance.mean() + torch.relu(1 - a.float().std(0)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
GUARDED = """\
for step in range(20):
    x, y = batch()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y) / (step % 4)
    if torch.isinf(loss):
        continue
    loss.backward()
    optimizer.step()
"""
MINE = {
    "fp16-without-grad-scaler",
    "grad-scaler-without-fp16",
    "backward-under-autocast",
    "weights-in-half-precision",
    "grad-scaler-skips-steps",
    "tf32-disabled",
    "nan-or-inf-hidden",
    "clipped-before-unscale",
}


def head(options: str = "") -> str:
    return HEAD.format(options=options)


def said(report: dict[str, Any], text: str) -> dict[str, str]:
    """The findings of these rules, each with its line as written."""
    assert not report["watched"]["failures"], report["watched"]["failures"]
    lines = text.splitlines()
    return {
        finding["name"]: lines[finding["line"] - 1].strip() for finding in report["findings"] if finding["name"] in MINE
    }


@pytest.mark.parametrize(
    ("loop", "options", "expected"),
    [
        (HALF, "", {"fp16-without-grad-scaler": "loss.backward()"}),
        (HALF.replace("float16", "bfloat16"), "", {}),
        (SCALED.format(steps=20, kind="float16"), "", {}),
        (
            SCALED.format(steps=20, kind="bfloat16"),
            "",
            {"grad-scaler-without-fp16": 'scaler = torch.amp.GradScaler("cuda")'},
        ),
        (TWINS, "", {"grad-scaler-skips-steps": "scaler.step(optimizer)"}),
        (TWINS, ", fused=True", {"grad-scaler-skips-steps": "scaler.step(optimizer)"}),
        (SCALED.format(steps=80, kind="float16"), ", fused=True", {}),
        (GUARDED, "", {"nan-or-inf-hidden": "if torch.isinf(loss):"}),
        (
            SCALED.format(steps=20, kind="float16").replace("    scaler.unscale_(optimizer)\n", ""),
            "",
            {"clipped-before-unscale": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"},
        ),
    ],
    ids=[
        "float16 without a scaler",
        "bfloat16",
        "float16 with a scaler",
        "a scaler over bfloat16",
        "skipped steps",
        "steps that a fused optimizer skips",
        "a fused optimizer that skips none",
        "a guard that says nothing",
        "clipped before unscale_",
    ],
)
def test_the_same_is_found_as_on_the_cpu_and_the_numbers_stay(
    loop: str, options: str, expected: dict[str, str], tmp_path: Path
) -> None:
    text = head(options) + loop + PRINTED
    plain, _ = run(tmp_path, text, watched=False)
    checked, report = run(tmp_path, text, watched=True)
    assert said(report, text) == expected
    assert checked == plain


def test_the_share_of_lost_gradients_is_measured_on_the_device(tmp_path: Path) -> None:
    tiny = HALF.replace("loss.backward()", "(loss / 65536).backward()")
    _, report = run(tmp_path, head() + tiny, watched=True)
    evidence = next(f["evidence"] for f in report["findings"] if f["name"] == "fp16-without-grad-scaler")
    assert evidence["gradients_zero"] + evidence["gradients_below_float16"] > 0.5


@pytest.mark.parametrize(
    ("setting", "spoken"),
    [
        ("", True),
        ('torch.set_float32_matmul_precision("high")\n', False),
        ('torch.set_float32_matmul_precision("highest")\n', False),
        ("torch.backends.cuda.matmul.allow_tf32 = True\n", False),
    ],
)
def test_float32_products_are_seen_with_whatever_setting_computes_them(
    setting: str, spoken: bool, tmp_path: Path
) -> None:
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this GPU has no TF32")
    text = f"""\
import torch
from torch import nn
{setting}torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(16):
    x = torch.randn(512, 1024, device="cuda")
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x[:, :8])
    loss.backward()
    optimizer.step()
"""
    _, report = run(tmp_path, text, watched=True)
    assert said(report, text) == (
        {"tf32-disabled": "loss = nn.functional.mse_loss(model(x), x[:, :8])"} if spoken else {}
    )


def test_a_scaler_is_watched_without_waiting_for_the_device(tmp_path: Path) -> None:
    """Steps with a wait that torch reports itself, of fifty past the first looks; a fused optimizer makes the host wait
    for nothing."""
    scaler, *body = SCALED.format(steps="steps", kind="float16").splitlines()
    training = [
        scaler,
        "def train(steps):",
        *(f"    {line}" for line in body),
    ]  # one line for both: a new one would be looked at anew
    counting = """
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
    loop = "\n".join(training) + counting
    text = head(", fused=True").replace("torch.use_deterministic_algorithms(True)\n", "") + loop
    plain, _ = run(tmp_path, text, watched=False)
    checked, _ = run(tmp_path, text, watched=True)
    assert int(checked) - int(plain) <= 12, f"steps with a wait: plain {plain}, watched {checked}"
