"""Two processes train as one: planted recipes that look at their whole batch, and healthy twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.claims.subjects import CLASSES, WIDTH, net, try_recipe
from trueloop.claims.distributed_equals_single import MIXING_LAYER, MIXING_LOSS, RANK

NAME = "distributed-equals-single"


def pairs(output: Tensor, targets: Tensor) -> Tensor:
    """The mean over all pairs of a batch: how far apart are samples of one class."""
    same = (targets[:, None] == targets[None]).float()
    return (torch.cdist(output, output) * same).sum() / same.sum()


def per_sample(output: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, targets, reduction="none")


def mean(output: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, targets)


@pytest.mark.parametrize(
    "changes",
    [{}, {"loss": per_sample}, {"loss": mean}, {"accumulate": 2, "clip": 0.1, "ema": 0.9}],
    ids=["plain", "loss per sample", "mean loss", "all at once"],
)
def test_a_healthy_recipe(tmp_path: Path, changes: dict[str, Any]) -> None:
    proof = try_recipe(NAME, tmp_path, **changes)
    assert proof.result == "holds", proof.measured
    assert len(proof.evidence["losses_of_two"]) == 6  # type: ignore[arg-type]
    assert float(str(proof.evidence["largest_difference"])) < 1e-5


def test_a_loss_over_pairs_of_the_batch(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, loss=pairs)
    assert proof.result == "fails"
    assert proof.measured.startswith("step 1: the loss is")
    assert "of its two halves" in proof.measured
    assert proof.causes[0] is MIXING_LOSS


class Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def test_a_layer_that_looks_at_its_batch(tmp_path: Path) -> None:
    proof = try_recipe(
        NAME, tmp_path, model=lambda: nn.Sequential(nn.Linear(WIDTH, 8), Centred(), nn.ReLU(), nn.Linear(8, CLASSES))
    )
    assert proof.result == "fails"
    assert "the output of layer 1 changes" in proof.measured
    assert proof.causes[0] is MIXING_LAYER


def test_batch_norm_is_each_process_s_own(tmp_path: Path) -> None:
    proof = try_recipe(
        NAME, tmp_path, model=lambda: nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
    )
    assert proof.result == "holds"
    assert proof.evidence["batch_norms"] == ["1"]
    assert "SyncBatchNorm" in proof.measured
    assert float(str(proof.evidence["largest_difference_with_batch_statistics"])) > 1e-3


class Draws(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = net()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(nn.functional.dropout(x, 0.5, self.training))  # type: ignore[no-any-return]


def test_a_model_that_draws_in_ways_of_its_own(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=Draws)
    assert proof.result == "holds"
    assert "in eval mode" in proof.measured


class ByRank(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how = net(), how

    def forward(self, x: Tensor) -> Tensor:
        if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
            if self.how == "raises":
                raise RuntimeError("no seat for the second")
            return self.inner(x).detach() + 0 * self.inner(x)  # type: ignore[no-any-return]
        return self.inner(x)  # type: ignore[no-any-return]


def test_gradients_of_one_process_are_lost(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: ByRank("detaches"))
    assert proof.result == "fails"
    assert proof.measured.startswith("the first gradient norm is")
    assert proof.causes[0] is RANK


def test_the_second_process_fails(tmp_path: Path) -> None:
    proof = try_recipe(NAME, tmp_path, model=lambda: ByRank("raises"))
    assert proof.result == "fails"
    assert "no seat for the second" in proof.measured
