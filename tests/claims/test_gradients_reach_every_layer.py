"""Every weight gets a gradient: planted failures and their healthy twins."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import WIDTH, recorded_script, try_recipe, try_script
from trueloop.claims.gradients_reach_every_layer import CUT, DEAD, NOT_FINITE, UNUSED, GradientsReachEveryLayer
from trueloop.event import Event, GradientsMeasured, LayerGradient, ParametersAccounted
from trueloop.results.proof import Proof

NAME = "gradients-reach-every-layer"


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.body(x)))  # type: ignore[no-any-return]


def test_a_healthy_recipe(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=TwoLayers)
    assert proof.result == "holds"
    assert proof.evidence["steps"] == 1
    assert float(str(proof.evidence["largest_over_smallest"])) >= 1


class Detached(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.body(x))
        return self.head(hidden.detach())  # type: ignore[no-any-return] # the line


def test_a_result_that_is_detached(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Detached)
    assert proof.result == "fails"
    assert proof.evidence["without_gradient"] == ["body.weight", "body.bias"]
    assert proof.causes[0] == CUT
    assert proof.place is not None
    assert "# the line" in Path(proof.place.path).read_text(encoding="utf-8").splitlines()[proof.place.line - 1]


class Unused(TwoLayers):
    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Linear(16, 3)


def test_a_layer_that_the_forward_never_calls(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Unused)
    assert proof.result == "fails"
    assert "2 of 6" in proof.measured
    assert proof.causes[0] == UNUSED


class Dead(TwoLayers):
    def __init__(self) -> None:
        super().__init__()
        nn.init.constant_(self.body.bias, -1e4)


def test_units_that_are_all_switched_off(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Dead)
    assert proof.result == "fails"
    assert set(proof.evidence["all_zero"]) >= {"body.weight", "body.bias"}  # type: ignore[call-overload]
    assert proof.causes[0] == DEAD


class Infinite(TwoLayers):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.sqrt(self.body(x) * 0))  # type: ignore[no-any-return]


def test_a_slope_that_has_no_value(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Infinite)
    assert proof.result == "fails"
    assert "body.weight" in str(proof.evidence["not_finite"])
    assert proof.causes[0] == NOT_FINITE


class Residual(nn.Module):
    """Two branches, one in the other, each with a last layer that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(WIDTH, 4, bias=False), nn.Linear(4, WIDTH, bias=False)
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.gate = nn.Parameter(torch.zeros(1))
        self.head = nn.Linear(WIDTH, 3)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.gate * torch.tanh(self.inner(x) + self.up(self.down(x))))  # type: ignore[no-any-return]


def test_branches_that_start_at_zero_are_waited_for(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Residual)
    assert proof.result == "holds"
    assert int(str(proof.evidence["steps"])) > 1


class Experts(nn.Module):
    """Only the first two are ever asked: the turn of the others may come."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, 3) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        chosen = (x[:, 0] > 0).long()
        out = x.new_zeros(len(x), 3)
        for number, expert in enumerate(self.experts):
            out[chosen == number] = expert(x[chosen == number])
        return out


def test_experts_whose_turn_has_not_come(tmp_path: Path) -> None:
    assert try_recipe(NAME, tmp_path, model=Experts).result == "holds"


class Blocks(nn.Module):
    """Blocks of a list run one after the other: a sibling's gradient excuses none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            x = torch.tanh(block(x.detach() if number == 1 else x))
        return self.head(x)  # type: ignore[no-any-return]


def test_a_block_before_a_detach(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Blocks)
    assert proof.result == "fails"
    assert proof.evidence["without_gradient"] == ["blocks.0.weight", "blocks.0.bias"]


def no_graph(output: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.detach(), targets)


def test_a_loss_that_depends_on_no_weight(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=TwoLayers, loss=no_graph)
    assert proof.result == "fails"
    assert "4 of 4" in proof.measured


@pytest.mark.parametrize("changes", [{"accumulate": 2}, {"ema": 0.9}, {"precision": "bf16"}], ids=str)
def test_whatever_the_recipe_asks_for(tmp_path: Path, changes: dict[str, object]) -> None:
    assert try_recipe(NAME, tmp_path, **changes).result == "holds"


SCRIPT = """\
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.side, self.head = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 1)
    def forward(self, x):
        side = torch.relu(self.side(x) {shift})
        hidden = torch.tanh(self.body(x){cut})
        return self.head(hidden + side)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 4)
for _ in range(12):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
"""


def test_a_script_that_detaches_one_layer_and_kills_another(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(shift="- 1e4", cut=".detach()"))
    assert proof.result == "fails"
    assert proof.evidence["without_gradient"] == ["body.weight", "body.bias"]
    assert proof.evidence["all_zero"] == ["side.weight"]
    assert proof.place is not None
    assert proof.place.line == 10


def test_a_healthy_script(tmp_path: Path) -> None:
    proof = try_script(NAME, tmp_path, SCRIPT.format(shift="", cut=""))
    assert proof.result == "holds"
    assert proof.evidence["trainable"] == 6


def of_events(scratch: Path, *events: Event) -> Proof:
    """The claim, tried on a script of which this was recorded."""
    return GradientsReachEveryLayer().try_script(recorded_script(scratch, *events))


def measured(step: int, norm: float) -> GradientsMeasured:
    layers = (LayerGradient("up.weight", norm, 8, 1, 1.0), LayerGradient("head.weight", 1.0, 8, 2, 1.0))
    return GradientsMeasured(step, None, 0, step, "Net", layers, 1.0, clipped=False, learning_rate=0.1)


def test_of_a_script_a_zero_counts_only_if_it_stays(tmp_path: Path) -> None:
    accounted = ParametersAccounted(5, None, 0, "Net", 5, (), 2, 0, (), None, ())
    assert of_events(tmp_path, accounted, measured(0, 0.0), measured(1, 0.0), measured(2, 1e-3)).result == "holds"
    assert of_events(tmp_path, accounted, measured(0, 0.0), measured(1, 0.0)).result == "holds"
    assert of_events(tmp_path, accounted, measured(0, 0.0), measured(1, 0.0), measured(2, 0.0)).result == "fails"
    assert of_events(tmp_path).result == "unproved"
