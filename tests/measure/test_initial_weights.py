"""Weights as they were drawn, and weights that a few steps have moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from trueloop.measure.initial_weights import is_initial, shrunken

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


def _scaled(model: nn.Module, factor: float, *layers: str) -> dict[str, torch.Tensor]:
    state = model.state_dict()
    chosen = {name: value * factor for name, value in state.items() if not layers or name in layers}
    return state | chosen


def _mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 6))


def test_weights_at_a_twentieth_of_their_size_are_shrunken() -> None:
    torch.manual_seed(0)
    model = _mlp()
    found = shrunken(model, _scaled(model, 0.05))
    assert found is not None
    assert found[0] == 3
    assert 0.045 < found[1] < 0.06


def test_what_is_not_shrunken() -> None:
    torch.manual_seed(0)
    model = _mlp()
    assert shrunken(model, model.state_dict()) is None
    assert shrunken(model, _scaled(model, 0.2)) is None  # heavy weight decay
    assert shrunken(model, _scaled(model, 0.02, "0.weight")) is None  # inputs in large units
    assert shrunken(model, _scaled(model, 0.01, "4.weight")) is None  # a last layer near zero, of a policy
    assert shrunken(model, _scaled(model, 0.0)) is None  # constant: another finding
    pruned = {name: value * (torch.rand_like(value) < 0.01) for name, value in _mlp().state_dict().items()}
    assert shrunken(model, pruned) is None
    drawn = {name: 0.01 * torch.randn_like(value) for name, value in model.state_dict().items()}
    assert shrunken(model, drawn) is None
    for layer in (nn.BatchNorm1d(6), nn.LayerNorm(6, elementwise_affine=False), nn.GRU(6, 6), nn.Embedding(5, 6)):
        other = nn.Sequential(*_mlp(), layer)
        assert shrunken(other, _scaled(other, 0.05)) is None
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(12, 48)), nn.Linear(48, 24))
    assert shrunken(normed, _scaled(normed, 0.05)) is None
