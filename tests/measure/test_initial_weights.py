"""Weights as they were drawn, and weights that a few steps have moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from trueloop.measure.initial_weights import is_initial

MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Sequential(nn.Linear(20, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 30)),
    "conv": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 16, 2), nn.GroupNorm(2, 16)),
    "recurrent": lambda: nn.LSTM(12, 24, num_layers=2),
    "attention": lambda: nn.TransformerEncoderLayer(16, 4, 32),
    "words": lambda: nn.ModuleList([nn.Embedding(50, 16), nn.Linear(16, 64), nn.Linear(64, 16)]),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_new_models_are_initial_and_moved_ones_are_not(name: str, seed: int) -> None:
    torch.manual_seed(seed)
    model = MODELS[name]()
    assert is_initial(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(20):
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
    assert is_initial(model.state_dict()) is False


def test_too_little_to_tell() -> None:
    assert is_initial(nn.Linear(20, 40).state_dict()) is None
    assert is_initial(nn.Sequential(nn.Linear(20, 40), nn.Linear(40, 30)).half().state_dict()) is None
    assert is_initial({}) is None


def test_other_weights_are_not_initial() -> None:
    torch.manual_seed(0)
    model = MODELS["linear"]()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.orthogonal_(module.weight)
    assert is_initial(model.state_dict()) is False
