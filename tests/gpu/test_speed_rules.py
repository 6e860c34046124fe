"""The speed rules on a real CUDA device: what the numbers in them say, what their patches do, and that looking changes
nothing."""

from __future__ import annotations

import shutil
import subprocess
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
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
"""
LARGE = (
    HEAD
    + """\
model = nn.Sequential(nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 2048), nn.ReLU(), nn.Linear(2048, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
data = torch.randn(4096, 2048, device="cuda")
"""
)
PRINTED = """\
import hashlib
print(hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest())
"""


def of(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["name"] == name]


def mended(folder: Path, diff: str) -> str:
    """The script after the patch."""
    if shutil.which("patch") is None:
        pytest.skip("this machine has no `patch`")
    subprocess.run(["patch", "-p0"], input=diff, text=True, cwd=folder, check=True)
    return (folder / "train.py").read_text(encoding="utf-8")


def line(text: str, part: str) -> int:
    return next(number for number, row in enumerate(text.splitlines(), 1) if part in row)


def test_a_read_that_waits_shows_for_how_long(tmp_path: Path) -> None:
    """A large model: nearly all of the step is spent in the read, and the script's own numbers are not changed by
    looking."""
    text = (
        LARGE
        + """\
total = 0.0
for step in range(50):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), data.mean(1, keepdim=True))
    loss.backward()
    optimizer.step()
    total += loss.item()
print(total.hex())
"""
    )
    plain, _ = run(tmp_path, text + PRINTED, watched=False)
    checked, report = run(tmp_path, text + PRINTED, watched=True)
    assert checked == plain
    (finding,) = of(report, "gpu-sync-every-step")
    assert finding["line"] == line(text, "loss.item()")
    evidence = finding["evidence"]
    assert evidence["readers"] == ["item"]
    assert 0.2 * evidence["step_ms"] < evidence["waited_ms"] <= 1.1 * evidence["step_ms"]


def test_every_way_of_reading_is_seen(tmp_path: Path) -> None:
    ways = [
        "loss.item()",
        "loss.cpu()",
        'loss.to("cpu")',
        "loss.tolist()",
        "float(loss)",
        "int(loss)",
        "bool(loss)",
        "str(loss)",
        'f"{loss:.1f}"',
    ]
    body = "\n".join(f"    kept = {way}" for way in ways)
    text = (
        LARGE
        + f"""\
for step in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), data.mean(1, keepdim=True))
    loss.backward()
    optimizer.step()
    loss = loss.detach()
{body}
"""
    )
    _, report = run(tmp_path, text, watched=True)
    assert {finding["line"] for finding in of(report, "gpu-sync-every-step")} == {
        line(text, f"kept = {way}") for way in ways
    }


def test_reads_in_a_closure_and_copies_that_do_not_wait_are_not(tmp_path: Path) -> None:
    text = (
        LARGE
        + """\
def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), data.mean(1, keepdim=True))
    loss.backward()
    kept.append(loss.item())
    return loss
kept = []
for step in range(20):
    loss = optimizer.step(closure).detach()
    later = loss.to("cpu", non_blocking=True)
"""
    )
    _, report = run(tmp_path, text, watched=True)
    assert of(report, "gpu-sync-every-step") == []


def test_the_patch_of_a_wrong_clock_makes_it_right(tmp_path: Path) -> None:
    """The time of asking is far below the time of computing; after the patch it is not."""
    text = (
        LARGE
        + """\
times = []
for step in range(20):
    optimizer.zero_grad()
    start = time.perf_counter()
    loss = nn.functional.mse_loss(model(data), data.mean(1, keepdim=True))
    times.append(time.perf_counter() - start)
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
print(sorted(times)[10])
"""
    )
    wrong, report = run(tmp_path, text, watched=True)
    (finding,) = of(report, "timed-without-synchronize")
    assert finding["line"] == line(text, "time.perf_counter() - start")
    right, report = run(tmp_path, mended(tmp_path, finding["diff"]), watched=True)
    assert of(report, "timed-without-synchronize") == []
    assert float(right) > float(wrong)


def test_a_device_that_is_still_busy_when_the_batch_comes_does_not_starve(tmp_path: Path) -> None:
    """The loop waits for most of what it sees of a step, but the device still has earlier steps to do."""
    text = (
        LARGE
        + """\
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        time.sleep(0.006)
        return torch.zeros(4)
for batch in DataLoader(Slow(), batch_size=1, shuffle=True):
    batch = batch.to("cuda", non_blocking=True)
    optimizer.zero_grad()
    (nn.functional.mse_loss(model(data), data.mean(1, keepdim=True)) + batch.sum()).backward()
    optimizer.step()
"""
    )
    _, report = run(tmp_path, text, watched=True)
    assert of(report, "dataloader-bottleneck") == []


def test_an_idle_device_starves(tmp_path: Path) -> None:
    text = (
        HEAD
        + """\
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.full((4,), float(index))
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
loader = DataLoader(Slow(), batch_size=1, shuffle=True)
for batch in loader:
    batch = batch.to("cuda")
    optimizer.zero_grad()
    nn.functional.mse_loss(model(batch), batch.mean(1, keepdim=True)).backward()
    optimizer.step()
"""
    )
    _, report = run(tmp_path, text, watched=True)
    (finding,) = of(report, "dataloader-bottleneck")
    assert finding["line"] == line(text, "loader = DataLoader")
    assert finding["evidence"]["share"] > 0.5


def test_pinned_memory_is_asked_for_by_the_patch(tmp_path: Path) -> None:
    text = (
        HEAD
        + """\
x = torch.randn(1280, 8192)
loader = DataLoader(TensorDataset(x, x.mean(1, keepdim=True)), batch_size=64, shuffle=True)
model = nn.Linear(8192, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
for x, y in loader:
    x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""
    )
    plain, report = run(tmp_path, text + PRINTED, watched=True)
    (finding,) = of(report, "memory-not-pinned")
    assert finding["evidence"]["copies"] == 2
    pinned, report = run(tmp_path, mended(tmp_path, finding["diff"]), watched=True)
    assert of(report, "memory-not-pinned") == []
    assert pinned == plain


def test_an_optimizer_is_put_back_on_its_fast_path_by_the_patch(tmp_path: Path) -> None:
    text = (
        HEAD
        + """\
model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(12)]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
for step in range(4):
    x = torch.randn(8, 16, device="cuda")
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()
    optimizer.step()
"""
    )
    _, report = run(tmp_path, text, watched=True)
    (finding,) = of(report, "optimizer-foreach-disabled")
    assert finding["evidence"]["one_by_one"] == 24
    _, report = run(tmp_path, mended(tmp_path, finding["diff"]), watched=True)
    assert of(report, "optimizer-foreach-disabled") == []


def test_a_model_that_goes_to_the_host_and_back_is_a_warning(tmp_path: Path) -> None:
    text = (
        HEAD
        + """\
model = nn.Linear(16, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(10):
    model.cuda()
    x = torch.randn(8, 16, device="cuda")
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x.mean(1, keepdim=True)).backward()
    optimizer.step()
    kept = [p.detach().clone() for p in model.cpu().parameters()]
"""
    )
    _, report = run(tmp_path, text, watched=True)
    findings = of(report, "model-moved-every-step")
    assert {finding["line"] for finding in findings} == {line(text, "    model.cuda()"), line(text, "model.cpu()")}
    assert {finding["severity"] for finding in findings} == {"warning"}
