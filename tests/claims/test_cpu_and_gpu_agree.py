"""Two devices compute the same. Here both are the CPU: planted models behave otherwise the second time they are
built."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, net, recipe, try_recipe
from trueloop.claims.cpu_and_gpu_agree import CpuAndGpuAgree
from trueloop.claims.subject import RecipeSubject
from trueloop.recipe.recipe import DataRequest
from trueloop.results.proof import Proof

NAME = "cpu-and-gpu-agree"


class Halved(nn.Module):
    """As a model that asks for its device: the third that is built, for 'the other device', hands back half the
    gradient."""

    def __init__(self, built: count[int]) -> None:
        super().__init__()
        self.inner = net()
        self.share = 0.5 if next(built) == 2 else 1.0

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner(x)
        return answer.detach() + (answer - answer.detach()) * self.share


class Shifted(nn.Linear):
    """Shifts what it answers, on one of them."""

    def __init__(self, shift: bool) -> None:
        super().__init__(8, 8)
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + (0.01 if self.shift else 0.0)


class Holds(nn.Module):
    def __init__(self, built: count[int]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)
        self.odd = Shifted(next(built) == 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.odd(self.first(x)))  # type: ignore[no-any-return]


def compare_devices(model: object, scratch: Path) -> Proof:
    made = recipe(model=model)
    return CpuAndGpuAgree().compare_devices(RecipeSubject(made, DataRequest(seed=made.seed), (), scratch), "cpu", "cpu")


def test_the_same_on_both(tmp_path: Path) -> None:
    proof = compare_devices(net, tmp_path)
    assert proof.result == "holds", proof.measured
    assert proof.evidence["gradient_difference"] == 0.0


def test_a_layer_that_computes_otherwise_is_named(tmp_path: Path) -> None:
    built = count()
    proof = compare_devices(lambda: Holds(built), tmp_path)
    assert proof.result == "fails"
    assert "the layer odd (Shifted) is the first" in proof.measured
    assert proof.place is not None
    assert "self.odd" in Path(proof.place.path).read_text("utf-8").splitlines()[proof.place.line - 1]


def test_only_the_gradients_differ(tmp_path: Path) -> None:
    built = count()
    proof = compare_devices(lambda: Halved(built), tmp_path)
    assert proof.result == "fails"
    assert "loss and outputs are equal, but the gradient of" in proof.measured
    assert "in the backward" in proof.measured


def test_without_a_gpu_nothing_is_claimed(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path)
    assert proof.result == ("holds" if torch.cuda.is_available() else "unproved")
