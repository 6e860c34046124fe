"""Looks at layers on a real CUDA device: nothing waits for it, and the numbers are those of the CPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from trueloop.engine.layers import LayerLook, during_forward

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


def _saw(found: LayerLook, name: str, module: nn.Module, given: Any, output: Any) -> None:
    found.saw(name, output)


def ignore(*_: object) -> None:
    """Sees nothing."""


def look(device: str, *, refuse_to_wait: bool = False) -> dict[str, float]:
    """The second of two steps, under a look: the first one loads libraries."""
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(16, 32, generator=torch.Generator().manual_seed(1)).to(device)
    for step in range(2):
        found = LayerLook(model)
        torch.cuda.set_sync_debug_mode("error" if refuse_to_wait and step else "default")
        try:
            during_forward(model, list(model.named_children()), partial(_saw, found), ignore)
            model(inputs).square().mean().backward()
            found.gradients()
            optimizer.step()
            reading = found.updated(step + 1)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return reading.values()


def test_a_look_at_the_layers_never_waits_for_the_device() -> None:
    values = look("cuda", refuse_to_wait=True)
    assert values["update/0.weight"] > 0
    assert 0 < values["activation_zeros/1"] < 1


def test_the_statistics_are_those_of_the_cpu() -> None:
    assert look("cuda") == pytest.approx(look("cpu"), rel=1e-3, abs=1e-5)
