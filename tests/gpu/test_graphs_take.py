"""What program=cuda_graphs takes: each is the eager run, to rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from tests.engine.small import SMALL, Read, ran

pytestmark = pytest.mark.gpu

ON_GPU = replace(SMALL, device="cuda", data=Read(samples=160, valid=40), epochs=4, log_every=5, statistics_every=0)


def own(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(output, targets, reduction="none") + 0.01 * output.square().mean(1)


def confidence(output: Tensor, targets: Tensor) -> Tensor:
    return output.softmax(1).max(1).values


@pytest.mark.parametrize(
    "changes",
    [
        {"accumulate": 2},
        {"ema": 0.9},
        {"clip": 0.5},
        {"loss": own},
        {"metrics": {"confidence": confidence}, "metric": "confidence"},
        {"accumulate": 2, "ema": 0.9, "clip": 0.5, "loss": own, "metrics": {"confidence": confidence}},
        {"schedule": lambda step, total: 1 - step / total, "warmup": 3},
        {
            "groups": lambda model: [
                {"params": model[0].parameters(), "lr_scale": 0.1},
                {"params": model[2].parameters()},
            ]
        },
        {"weight_decay": 0.1, "batch": 32},
        {"where": "loader"},
        {"where": "loader", "workers": 2, "accumulate": 2, "clip": 0.5},
        {"parallel": "ddp"},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_it_is_the_eager_run(changes: dict[str, Any]) -> None:
    eager = ran(replace(ON_GPU, **changes))
    graphs = ran(replace(ON_GPU, program="cuda_graphs", **changes))
    assert graphs.loop.program.replays
    assert graphs.losses == pytest.approx(eager.losses, rel=1e-3)
    for name in {name for row in eager.kept.rows if row.kind == "valid" for name in row.values}:
        assert graphs.kept.values(name, "valid") == pytest.approx(eager.kept.values(name, "valid"), rel=2e-2)
    for name, value in eager.weights.items():
        torch.testing.assert_close(graphs.weights[name], value, rtol=1e-3, atol=1e-4)
