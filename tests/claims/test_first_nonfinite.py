"""No number that is none: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, blobs, try_recipe, try_script
from trueloop.claims.first_nonfinite import DATA, DOMAIN, EARLIER, GRADIENT, STEPS
from trueloop.data.source import Splits
from trueloop.data.tensors import Tensors
from trueloop.event import Place
from trueloop.recipe.recipe import DataRequest

NAME = "first-nonfinite"


def line_of(place: Place | None) -> str:
    assert place is not None
    return Path(place.path).read_text(encoding="utf-8").splitlines()[place.line - 1]


def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, epochs=10)
    assert proof.result == "holds"
    assert proof.evidence["steps"] == STEPS
    assert (
        try_recipe(NAME, tmp_path, accumulate=2, ema=0.9, precision="bf16", schedule="plateau").evidence["steps"] == 12
    )


class Logarithm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, 16), nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.body(x))
        return self.head(torch.log(hidden))  # type: ignore[no-any-return] # the line


def test_an_operation_outside_its_domain(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Logarithm)
    assert proof.result == "fails"
    assert proof.evidence["step"] == 1
    assert proof.evidence["operation"] == "log"
    assert proof.causes[0] == DOMAIN
    assert "# the line" in line_of(proof.place)


class Root(Logarithm):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.sqrt(self.body(x) * 0))  # type: ignore[no-any-return] # the slope


def test_a_slope_that_has_no_value(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Root)
    assert proof.result == "fails"
    assert proof.evidence["what"] == "gradient"
    assert proof.evidence["operation"] == "sqrt"
    assert proof.causes[0] == GRADIENT
    assert "# the slope" in line_of(proof.place)


def own(output: Tensor, targets: Tensor) -> Tensor:
    chosen = torch.relu(output).gather(1, targets[:, None])
    return -torch.log(chosen).squeeze(1)  # the loss


def test_a_loss_of_the_users_own(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, loss=own)
    assert proof.result == "fails"
    assert proof.evidence["origin"] == "loss"
    assert "# the loss" in line_of(proof.place)


def one_bad_sample(request: DataRequest) -> Splits:
    splits = blobs(request)
    assert isinstance(splits.train, Tensors)
    batch = splits.train.fetch(torch.arange(len(splits.train)))
    batch.inputs[37, 2] = torch.nan
    return Splits(train=Tensors(batch.inputs, batch.targets), facts=splits.facts)


def test_a_sample_that_holds_it(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, data=one_bad_sample)
    assert proof.result == "fails"
    assert proof.evidence["origin"] == "input"
    assert proof.evidence["sample"] == 37
    assert proof.causes == (DATA,)
    assert "sample 37 of the training data" in proof.measured


def spoiled() -> nn.Module:
    model = nn.Linear(WIDTH, CLASSES)
    nn.init.constant_(model.weight, torch.nan)
    return model


def test_a_weight_that_is_none_from_the_beginning(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=spoiled)
    assert proof.result == "fails"
    assert proof.causes == (EARLIER,)


class Exploding(nn.Module):
    """Each step moves the weight so far that the next ones overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).squeeze(1)  # type: ignore[no-any-return]


def square(output: Tensor, targets: Tensor) -> Tensor:
    return F.mse_loss(output, targets.float(), reduction="none")


def test_a_rate_that_is_far_too_high(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"model": Exploding, "loss": square, "optimizer": "sgd", "epochs": 10}
    proof = try_recipe(NAME, tmp_path, lr=1e4, **changes)
    assert proof.result == "fails"
    assert 1 < int(str(proof.evidence["step"])) <= STEPS
    assert try_recipe(NAME, tmp_path, lr=1e-3, **changes).result == "holds"


SCRIPT = """\
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 4)
for step in range(8):
    optimizer.zero_grad()
    ratio = torch.log(model(x).abs() * (step {until} 3) {constant})
    loss = ratio.pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_script_that_meets_one(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(until="!=", constant=""))
    assert proof.result == "fails"
    assert proof.evidence["step"] == 4
    assert proof.place is not None
    assert proof.place.line in (9, 11)


def test_a_healthy_script(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(until="!=", constant="+ 1e-3"))
    assert proof.result == "holds"
    assert proof.evidence["steps"] == 8
