"""A loaded model answers the same: what a checkpoint does not hold is named; the healthy twins hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, try_recipe, try_script
from trueloop.claims.reload_gives_same_output import LAZY, UNSAVED
from trueloop.results.proof import Proof

NAME = "reload-gives-same-output"


def line_of(proof: Proof) -> str:
    assert proof.place is not None
    return Path(proof.place.path).read_text(encoding="utf-8").splitlines()[proof.place.line - 1]


class Features(nn.Module):
    """Random features that belong to nobody."""

    def __init__(self, registered: bool = False) -> None:
        super().__init__()
        scale = torch.randn(WIDTH)
        self.shift = torch.linspace(0, 1, WIDTH)
        if registered:
            self.register_buffer("scale", scale)
        else:
            self.scale = scale
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * self.scale + self.shift)  # type: ignore[no-any-return]


def test_a_drawn_tensor_that_is_no_buffer(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: nn.Sequential(nn.Identity(), Features()))
    assert proof.result == "fails"
    assert proof.evidence["attributes"] == ["1.scale"]
    assert proof.causes[0] == UNSAVED
    assert "self.scale = scale" in line_of(proof)


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, CLASSES)
        self.late: Any = None

    def forward(self, x: Tensor) -> Tensor:
        if self.late is None:
            self.late = nn.Linear(CLASSES, CLASSES)
        return self.late(self.first(x))  # type: ignore[no-any-return]


def test_a_layer_that_is_made_in_the_first_forward(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Lazy)
    assert proof.result == "fails"
    assert "late.weight" in proof.measured
    assert proof.causes[0] == LAZY
    assert "self.late" in line_of(proof)


class Averaging(nn.Module):
    """Keeps a running mean in a plain number."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)
        self.mean = 0.0

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * float(x.mean())
        return self.head(x - self.mean)  # type: ignore[no-any-return]


def test_a_statistic_that_is_a_plain_number(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Averaging)
    assert proof.result == "fails"
    assert proof.evidence["attributes"] == ["mean"]
    assert "self.mean = 0.0" in line_of(proof)


def test_healthy_recipes(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, model=lambda: Features(registered=True)).result == "holds"
    assert try_recipe(NAME, tmp_path / "other", ema=0.9, accumulate=2).result == "holds"


SCRIPT = """\
import torch
from torch import nn
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, width, *, classes):
        super().__init__()
        self.head = nn.Linear(width, classes)
        {scale}

    def forward(self, x):
        return self.head(x * self.scale)


model = nn.Sequential(nn.Linear(4, 4), Net(4, classes=2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)
for _ in range(3):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_script_whose_tensor_is_no_buffer(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(scale="self.scale = torch.randn(width)"))
    assert proof.result == "fails", proof.measured
    assert proof.evidence["attributes"] == ["1.scale"]
    assert proof.place is not None
    assert (Path(proof.place.path).name, proof.place.line) == ("train.py", 10)


def test_its_healthy_twin(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(scale='self.register_buffer("scale", torch.randn(width))'))
    assert proof.result == "holds", proof.measured
    assert proof.evidence["tensors"] == 5


CHANGED = """\
import torch
from torch import nn
torch.manual_seed(0)

class Backbone(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5))
        self.fc = nn.Linear(8, classes)
        self.scale = 1.0
        {lazily}

    def forward(self, x):
        {forward}
        return self.fc(self.body(x)) * self.scale

model = Backbone(3)
{change}
x = torch.randn(16, 4)
model(x)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("model.fc = nn.Linear(8, 5)", "fc"),
        ("model.fc = nn.Sequential(nn.Linear(8, 3))", "fc"),
        ("model.extra = nn.Linear(8, 5)", "extra"),
        ("model.body[1] = nn.Tanh()", "body.1"),
        ("model.body[2].p = 0.1", "body.2.p"),
        ("model.scale = 2.0", "scale"),
    ],
)
def test_a_model_that_its_script_changes_after_it_was_built_is_not_judged(
    tmp_path: Path, change: str, named: str
) -> None:
    proof = try_script(NAME, tmp_path, CHANGED.format(change=change, lazily="pass", forward="pass"))
    assert proof.result == "unproved"
    assert f"({named}" in proof.measured


def test_a_head_that_is_replaced_between_two_phases_is_not_judged(tmp_path: Path) -> None:
    text = CHANGED.format(change="", lazily="pass", forward="pass").replace(
        "optimizer = ", "model.fc = nn.Linear(8, 5)\noptimizer = "
    )
    proof = try_script(NAME, tmp_path, text)
    assert proof.result == "unproved"
    assert "after its first call" in proof.measured


def test_the_same_model_left_alone(tmp_path: Path) -> None:
    assert try_script(NAME, tmp_path, CHANGED.format(change="", lazily="pass", forward="pass")).result == "holds"


def test_a_script_whose_layer_is_made_in_the_first_forward(tmp_path: Path) -> None:
    made = "self.late = getattr(self, 'late', None) or nn.Linear(4, 4)"
    proof = try_script(NAME, tmp_path, CHANGED.format(change="", lazily="pass", forward=made + "; x = self.late(x)"))
    assert proof.result == "fails"
    assert "late" in proof.measured


def test_a_script_that_trains_nothing(tmp_path: Path) -> None:
    assert try_script(NAME, tmp_path, "print('hello')\n").result == "unproved"
