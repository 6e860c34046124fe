"""Claims on a real CUDA device: what is the same on both, and what a model that asks for its device does to that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, net, try_recipe

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]


class Asks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        middle = self.first(x)
        return self.last(middle.relu() if middle.is_cuda else middle.tanh())  # type: ignore[no-any-return]


def test_a_healthy_model_computes_the_same_on_both(tmp_path: Path) -> None:
    proof = try_recipe("cpu-and-gpu-agree", tmp_path, model=net)
    assert proof.result == "holds", proof.measured


def test_convolutions_too_with_tf32_off(tmp_path: Path) -> None:
    def built() -> nn.Module:
        return nn.Sequential(
            nn.Unflatten(1, (1, WIDTH)),
            nn.Conv1d(1, 64, 3),
            nn.BatchNorm1d(64),
            nn.Flatten(),
            nn.Linear(64 * (WIDTH - 2), 3),
        )

    proof = try_recipe("cpu-and-gpu-agree", tmp_path, model=built)
    assert proof.result == "holds", proof.measured


def test_one_that_asks_for_its_device_does_not(tmp_path: Path) -> None:
    proof = try_recipe("cpu-and-gpu-agree", tmp_path, model=Asks)
    assert proof.result == "fails"
    assert "the layer last (Linear) is the first" in proof.measured


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_precisions_agree(tmp_path: Path, precision: str) -> None:
    proof = try_recipe("precision-agrees", tmp_path, device="cuda", precision=precision)
    assert proof.result == "holds", proof.measured


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = net()
        self.answers: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner(x)
        self.answers.append(answer.detach())
        return answer


def test_memory_is_counted_on_the_device(tmp_path: Path) -> None:
    healthy = try_recipe("no-memory-growth", tmp_path, device="cuda")
    assert healthy.result == "holds", healthy.measured
    assert healthy.evidence["gpu_bytes"]
    leaking = try_recipe("no-memory-growth", tmp_path, device="cuda", model=Remembers)
    assert leaking.result == "fails", leaking.measured
    assert "the list `answers` of a Remembers" in leaking.measured


def test_eager_and_compiled_agree(tmp_path: Path) -> None:
    proof = try_recipe("eager-and-compiled-agree", tmp_path, device="cuda")
    assert proof.result == "holds", proof.measured
