"""Weights go to another device and back, and the model with them: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, try_recipe
from trueloop.claims.save_and_load_on_other_device import ATTRIBUTE, CREATED
from trueloop.results.proof import Proof

NAME = "save-and-load-on-other-device"

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="what is said here is said of meta")


def line_of(proof: Proof) -> str:
    assert proof.place is not None
    return Path(proof.place.path).read_text(encoding="utf-8").splitlines()[proof.place.line - 1]


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = [torch.linspace(0, 1, WIDTH), torch.ones(WIDTH, WIDTH)]
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) @ self.table[1]  # type: ignore[no-any-return]


def net(middle: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), middle, nn.Dropout(0.5), nn.Linear(WIDTH, CLASSES)
    )


def test_a_tensor_that_is_a_plain_attribute(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Scaled()))
    assert proof.result == "fails"
    assert (proof.evidence["layer"], proof.evidence["attribute"], proof.evidence["other"]) == ("2", "2.table", "meta")
    assert proof.causes[0] == ATTRIBUTE
    assert "self.table = " in line_of(proof)
    assert "meta" in proof.measured


class Positions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(x.shape[1])


def test_a_tensor_that_the_forward_makes_on_the_host(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Positions()))
    assert proof.result == "fails"
    assert proof.evidence["attribute"] == ""
    assert proof.causes[0] == CREATED
    assert "torch.arange" in line_of(proof)


class Forgetful(nn.Module):
    """Its weights do not come back as they were saved."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)  # type: ignore[no-any-return]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        state_dict[f"{prefix}inner.weight"] = state_dict[f"{prefix}inner.weight"] * 2
        super()._load_from_state_dict(state_dict, prefix, *rest)


def test_weights_that_do_not_come_back(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Forgetful()))
    assert proof.result == "fails"
    assert proof.evidence["differing"] == ["2.inner.weight"]


class Careful(nn.Module):
    """A plain attribute, a number and an index that are all brought along where they are used."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.shift, self.factor, self.order = torch.ones(WIDTH), torch.tensor(0.5), torch.arange(WIDTH).flip(0)
        self.register_buffer("table", torch.ones(WIDTH), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return (
            x[:, self.order] * self.factor + self.shift.to(x) + torch.arange(x.shape[1], device=x.device) * self.table
        )


def test_healthy_recipes(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Careful()))
    assert proof.result == "holds", proof.measured
    assert try_recipe(NAME, tmp_path, ema=0.9).result == "holds"


class Looking(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if float(x.sum()) > 0 else x


def test_a_forward_that_looks_at_values_cannot_be_tried(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: net(Looking()))
    assert proof.result == "unproved"
    assert "GPU" in proof.measured
