"""Compiled is as written: planted parts that know when they are compiled, and healthy twins; by aot_eager, which is
quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, net, try_recipe
from trueloop.claims import eager_and_compiled_agree as claim
from trueloop.claims.eager_and_compiled_agree import CUSTOM, TRACED
from trueloop.event import Place

NAME = "eager-and-compiled-agree"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "DEFAULT", "aot_eager")


class Knows(nn.Module):
    """Rounds what it answers, but not when it is compiled."""

    def forward(self, x: Tensor) -> Tensor:
        return x if torch.compiler.is_compiling() else x.round(decimals=1)


class Breaks(nn.Module):
    """Cannot be traced in one piece, and is right all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: Tensor) -> Tensor:
        middle: Tensor = self.inner(x)
        return middle * 2 if float(middle.sum()) > 0 else middle * 3


@torch.library.custom_op("trueloop_tests::cubed", mutates_args=())
def cubed(x: Tensor) -> Tensor:
    return x**3


@cubed.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def _backward(ctx: Any, gradient: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    slope: Tensor = x * x * (2 if torch.compiler.is_compiling() else 3)
    return gradient * slope


torch.library.register_autograd("trueloop_tests::cubed", _backward, setup_context=_keep)


class Cubes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        shifted = x + 1
        return cubed(shifted)  # type: ignore[no-any-return]  # the operation


def block(middle: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.Sequential(nn.Tanh(), middle), nn.Linear(8, CLASSES))


@pytest.mark.usefixtures("quick")
def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path)
    assert proof.result == "holds", proof.measured
    assert "1 graph, 0 breaks" in proof.measured


@pytest.mark.usefixtures("quick")
def test_graph_breaks_are_counted(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Breaks)
    assert proof.result == "holds", proof.measured
    assert int(str(proof.evidence["graph_breaks"])) >= 1


@pytest.mark.usefixtures("quick")
def test_a_part_that_asks_whether_it_is_compiled(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: block(Knows()))
    assert proof.result == "fails"
    assert "1.1 (Knows)" in proof.measured
    assert proof.evidence["stage"] == "eager"
    assert proof.causes[0] is TRACED
    assert proof.place is not None
    assert "class Knows" in _line(proof.place)


@pytest.mark.usefixtures("quick")
def test_an_operation_whose_backward_is_another(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: block(Cubes()))
    assert proof.result == "fails"
    assert "loss and outputs are equal, but the gradient of 0." in proof.measured
    assert "1.1 (Cubes)" in proof.measured
    assert "trueloop_tests.cubed" in proof.measured
    assert proof.evidence["stage"] == "aot_eager"
    assert proof.causes[0] is CUSTOM
    assert proof.place is not None
    assert "# the operation" in _line(proof.place)


@torch.library.custom_op("trueloop_tests::opaque", mutates_args=())
def opaque(x: Tensor) -> Tensor:
    return x.clone()


@opaque.register_fake
def _(x: Tensor) -> Tensor:
    raise ValueError("nobody knows its shape")


class Refuses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + opaque(x.detach())  # type: ignore[no-any-return]


@pytest.mark.usefixtures("quick")
def test_what_cannot_be_compiled(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, model=lambda: block(Refuses())).result == "unproved"
    asked = try_recipe(NAME, tmp_path, model=lambda: block(Refuses()), compile="default")
    assert asked.result == "fails"
    assert "torch cannot compile this model" in asked.measured
    assert "nobody knows its shape" in asked.measured


class Untouched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    @torch.compiler.disable
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)  # type: ignore[no-any-return]


@pytest.mark.usefixtures("quick")
def test_what_is_not_compiled_at_all_is_not_claimed(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Untouched)
    assert proof.result == "unproved"
    assert "no graph was made" in proof.measured


@pytest.mark.long
def test_the_kernels_of_inductor(tmp_path: Path) -> None:
    healthy = try_recipe(NAME, tmp_path)
    assert healthy.result == "holds", healthy.measured
    assert healthy.evidence["backend"] == "inductor"
    assert try_recipe(NAME, tmp_path, model=lambda: block(Knows())).result == "fails"


def _line(place: Place) -> str:
    return Path(place.path).read_text("utf-8").splitlines()[place.line - 1]
