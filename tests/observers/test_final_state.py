"""What became of the models of a run: equal members, weights that stay zero, batch norm that cannot follow."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from trueloop.doctor.watch import Watch
from trueloop.event import BatchNormSettings, Event, ModelsIdentical, ZeroWeights
from trueloop.results.check import Tally

Kind = TypeVar("Kind", bound=Event)


def events_of(kind: type[Kind], work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[Kind]:
    seen: list[Kind] = []
    monkeypatch.setattr(Tally, "hear", lambda _, event: seen.append(event) if isinstance(event, kind) else None)
    with Watch():
        work()
    return seen


def fit(model: nn.Module, steps: int = 24, seed: int = 1, offset: float = 0.0) -> list[float]:
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
    losses: list[float] = []
    for _ in range(steps):
        x = torch.randn(16, 4) + offset
        loss: Tensor = ((model(x).squeeze(1) - x[:, 0]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def line() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 1)


class Product(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.base = line()
        self.down = nn.Parameter(torch.ones(4, 2) * scale)
        self.up = nn.Parameter(torch.zeros(2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.down @ self.up  # type: ignore[no-any-return]


def test_three_models_with_one_seed_are_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    (event,) = events_of(ModelsIdentical, lambda: [fit(line()) for _ in range(3)], monkeypatch)
    assert (event.name, event.count, event.trained, event.parameters) == ("Linear", 3, 3, 5)


@pytest.mark.parametrize(
    "work",
    [
        lambda: [fit(line()), fit(line())],  # one after the other: a test of reproducibility
        lambda: [fit(line(), seed=seed) for seed in range(3)],
        lambda: [fit(line(), steps=10) for _ in range(3)],
        lambda: [fit(line(), steps=steps) for steps in (20, 24, 28)],
    ],
)
def test_other_models_are_not(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not events_of(ModelsIdentical, work, monkeypatch)


def test_heads_on_equal_frozen_backbones_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    backbone = nn.Sequential(*[nn.Linear(4, 4) for _ in range(80)]).requires_grad_(False)

    def work() -> None:
        for seed in range(3):
            torch.manual_seed(seed)
            fit(nn.Sequential(copy.deepcopy(backbone), nn.Linear(4, 1)))

    assert not events_of(ModelsIdentical, work, monkeypatch)


def test_two_zero_factors_stay_zero_and_one_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    (event,) = events_of(ZeroWeights, lambda: fit(Product(0.0)), monkeypatch)
    assert (event.model, event.names, event.frozen, event.steps) == ("Product", ("down", "up"), False, 24)
    assert not events_of(ZeroWeights, lambda: fit(Product(0.1)), monkeypatch)


@pytest.mark.parametrize(
    ("momentum", "offset", "evaluated", "found"),
    [(0.001, 3.0, True, 1), (0.001, 3.0, False, 0), (0.1, 3.0, True, 0), (None, 3.0, True, 0), (0.001, 0.0, True, 0)],
)
def test_batch_norm_that_is_evaluated_with_initial_statistics(
    momentum: float | None, offset: float, evaluated: bool, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        model = nn.Sequential(nn.BatchNorm1d(4, momentum=momentum), line())
        fit(model, offset=offset)
        if evaluated:
            model.eval()
            with torch.no_grad():
                model(torch.randn(8, 4))

    events = events_of(BatchNormSettings, work, monkeypatch)
    assert len(events) == found
    for event in events:
        assert (event.momentum, event.updates, event.layers) == (0.001, 24, 1)
        assert event.left == pytest.approx(0.999**24)
        assert event.shift == pytest.approx(3 * event.left, rel=0.2)


def test_a_watched_run_is_bit_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = fit(Product(0.1))
    watched: list[float] = []
    events_of(ZeroWeights, lambda: watched.extend(fit(Product(0.1))), monkeypatch)
    assert watched == plain
