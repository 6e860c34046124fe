"""Half the bits give the same loss and direction: planted overflow and cancellation, and healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, blobs, try_recipe
from trueloop.claims.precision_agrees import CANCELS, OVERFLOW
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.recipe.recipe import DataRequest

NAME = "precision-agrees"


class Large(nn.Module):
    """Activations of a million, which the next layer makes small again."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 16)
        self.act, self.down = nn.ReLU(), nn.Linear(16, CLASSES)
        with torch.no_grad():
            self.up.weight.mul_(1e6)
            self.down.weight.mul_(1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))  # type: ignore[no-any-return]


class Cancels(nn.Module):
    """What it answers is a small difference of large numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.far, self.head = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        base: Tensor = self.far(x) + 4096
        answer: Tensor = base + self.head(x)
        return answer - base


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_healthy_recipe(tmp_path: Path, precision: str) -> None:
    proof = try_recipe(NAME, tmp_path, precision=precision)
    assert proof.result == "holds", proof.measured
    told: Any = proof.evidence["fp16"]
    assert told["safe"] is True
    assert told["cosine"] > 0.99
    assert ("checked with bf16" in proof.measured) == (precision == "fp32")


def test_an_overflow_in_fp16_fails_a_recipe_that_asks_for_it(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Large, precision="fp16", lr=1e-9)
    assert proof.result == "fails"
    assert "the layer up is the first whose output overflows" in proof.measured
    assert "bf16 agrees too" in proof.measured
    assert proof.causes[0] is OVERFLOW
    assert proof.place is not None
    assert "self.up" in Path(proof.place.path).read_text("utf-8").splitlines()[proof.place.line - 1]


def test_and_is_only_told_of_one_that_does_not(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Large, lr=1e-9)
    assert proof.result == "holds", proof.measured
    assert "fp16 the loss is" in proof.measured
    told: Any = proof.evidence["fp16"]
    assert (told["safe"], told["first_layer"]) == (False, "up")


def test_a_small_difference_of_large_numbers(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Cancels)
    assert proof.result == "fails"
    assert proof.measured.startswith("bf16: ")
    assert proof.causes[0] is CANCELS


def quantities(request: DataRequest) -> Splits:
    inputs: Any = blobs(request).train.fetch(torch.arange(96)).inputs
    return Splits(
        train=Tensors(inputs, inputs.sum(1)),
        valid=Tensors(inputs[:20], inputs[:20].sum(1)),
        facts=Facts(inputs=(WIDTH,)),
    )


def test_another_task(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, task="regression", data=quantities, model=lambda: nn.Linear(WIDTH, 1))
    assert proof.result == "holds", proof.measured


class Lacks(nn.Module):
    """As an operation that has no kernel for half the bits on this device."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner(x)
        if answer.dtype == torch.bfloat16:
            raise RuntimeError("not implemented for 'BFloat16'")
        return answer


def test_what_cannot_be_computed_is_not_claimed(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Lacks)
    assert proof.result == "unproved"
    assert "bf16 cannot be computed on this cpu: not implemented" in proof.measured
    other = try_recipe(NAME, tmp_path, model=Lacks, precision="fp16")
    assert other.result == "holds"
    assert "bf16 cannot be computed on this cpu" in other.measured


def test_tf32_needs_a_gpu(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, precision="tf32").result == ("holds" if torch.cuda.is_available() else "unproved")
