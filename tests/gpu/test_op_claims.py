"""Claims about operations on a CUDA device: Triton kernels, healthy and faulty, and streams."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from trueloop.cli.main import main
from trueloop.op_claims.sanitizer import sanitizer_path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

KERNELS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, out, row, width, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    at = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    if MASKED:
        values = tl.load(x + at * row + columns, mask=columns < width, other=-float("inf")).to(tl.float32)
    else:
        values = tl.load(x + at * row + columns).to(tl.float32)
    values = tl.exp(values - tl.max(values, 0))
    values = values / tl.sum(values, 0)
    tl.store(out + at * width + columns, values.to(out.dtype.element_ty), mask=columns < width)


def launch(x, masked, contiguous=True):
    x = x.contiguous() if contiguous else x
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows = x.numel() // x.shape[-1] if x.numel() else 0
    if rows:
        block = triton.next_power_of_2(x.shape[-1])
        softmax_kernel[(rows,)](x, out, x.shape[-1], x.shape[-1], BLOCK=block, MASKED=masked)
    return out


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim):
        assert dim == -1
        assert x.dtype != torch.float64, "computes in float32"
        y = launch(x, True)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True)), None


def without_mask(x, dim):
    return launch(x, False)


def without_strides(x, dim):
    return launch(x, True, contiguous=False)


@triton.jit
def doubled_kernel(x, out, count, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = 2 * tl.load(x + place, mask=place < count, other=0.0)
    if MASKED:
        tl.store(out + place, values, mask=place < count)
    else:
        tl.store(out + place, values)


def doubled(x, dim, masked=True):
    x = x.contiguous()
    out = torch.empty_like(x)
    if x.numel():
        doubled_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128, MASKED=masked)
    return out


def writes_behind_its_result(x, dim):
    return doubled(x, dim, masked=False)


def on_the_default_stream(x, dim):
    with torch.cuda.stream(torch.cuda.default_stream()):
        return torch.softmax(x, dim)


def samples():
    return [(torch.randn(4, 8), -1), (torch.randn(5, 100), -1)]
"""


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    pytest.importorskip("triton")
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("kernels_to_probe", None)
    (tmp_path / "kernels_to_probe.py").write_text(KERNELS, encoding="utf-8")

    def run(name: str, *claims: str) -> dict[str, dict[str, Any]]:
        words = ["--against", "torch.softmax", "--format", "json"]
        main(["probe", f"kernels_to_probe.py:{name}", *claims, *words])
        said = json.loads(capsys.readouterr().out)
        assert not said["failures"], said["failures"]
        return {proof["claim"]: proof for proof in said["proofs"]}

    return run


def test_a_healthy_kernel_fails_no_claim(probe: Any) -> None:
    proofs = probe("Softmax")
    assert not [f"{name}: {each['measured']}" for name, each in proofs.items() if each["result"] == "fails"]
    for name in ("forward-equals-reference", "memory-stays-inside-tensors", "streams-agree", "twice-bit-identical"):
        assert proofs[name]["result"] == "holds", proofs[name]["measured"]


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("without_mask", "memory-stays-inside-tensors"),
        ("without_strides", "result-independent-of-layout"),
        ("on_the_default_stream", "streams-agree"),
    ],
)
def test_a_faulty_kernel_is_found(probe: Any, name: str, claim: str) -> None:
    assert probe(name, claim)[claim]["result"] == "fails"


def test_an_operation_is_timed_by_events_cold_and_warm(probe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--against", "torch.softmax", "--device", "cuda", "--sizes", "256,1024", "--seconds", "0.05", "-q"]
    assert (
        main(["bench", "kernels_to_probe.py:without_mask", "--inputs", "f32[64,N], -1", *words, "--format", "json"])
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert {each["cache"] for each in said["sizes"]} == {"warm", "cold"}
    assert all(each["agrees"] for each in said["sizes"])


@pytest.mark.skipif(sanitizer_path() is None, reason="needs compute-sanitizer")
def test_compute_sanitizer_finds_a_write_behind_the_result(probe: Any) -> None:
    """No guard lies there: torch's pool of memory hides it from every other claim."""
    claim = "memory-stays-inside-tensors"
    faulty = probe("writes_behind_its_result", claim)[claim]
    assert faulty["result"] == "fails", faulty["measured"]
    assert "invalid __global__ write" in faulty["measured"]
    assert "doubled_kernel" in faulty["measured"]
    healthy = probe("doubled", claim)[claim]
    assert healthy["result"] == "holds", healthy["measured"]
    assert healthy["measured"].endswith("compute-sanitizer reports no error")


@pytest.mark.skipif(sanitizer_path() is not None, reason="compute-sanitizer is installed")
def test_without_compute_sanitizer_the_claim_says_so(probe: Any) -> None:
    claim = "memory-stays-inside-tensors"
    assert "because compute-sanitizer is not installed" in probe("doubled", claim)[claim]["measured"]
