"""The fused kernel called straight gives the optimizer's own bits, and steps aside whenever something is not as it
was."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from trueloop.engine.fused_adam import FusedStep

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


def adam(groups: list[dict[str, Any]], **options: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(groups, lr=1e-2, fused=True, **options)


def adamw(groups: list[dict[str, Any]], **options: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=1e-2, betas=(0.8, 0.95), weight_decay=0.1, fused=True, **options)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    return [{"params": matrices, "weight_decay": 0.2}, {"params": vectors, "weight_decay": 0.0}]


def fill(model: nn.Module, step: int, without: str = "") -> None:
    """Gradients that depend on the step alone."""
    draws = torch.Generator().manual_seed(step)
    for name, parameter in model.named_parameters():
        gradient = torch.randn(parameter.shape, generator=draws)
        parameter.grad = None if name == without else gradient


def both(
    make: Make, steps: int = 6, without: Callable[[int], str] = lambda _: ""
) -> tuple[nn.Module, nn.Module, Any, Any]:
    """The same steps by the optimizer itself and straight: the two models and optimizers."""
    plain, straight = network(), network()
    own, other = make(groups_of(plain)), make(groups_of(straight))
    direct = FusedStep(other)
    for step in range(steps):
        for optimizer in (own, other):
            optimizer.param_groups[0]["lr"] = 1e-2 / (step + 1)
        fill(plain, step, without(step))
        fill(straight, step, without(step))
        own.step()
        direct.step()
    return plain, straight, own, other


def equal(first: nn.Module, second: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def same_state(first: Any, second: Any) -> bool:
    one, other = first.state_dict()["state"], second.state_dict()["state"]
    return one.keys() == other.keys() and all(torch.equal(one[k][name], other[k][name]) for k in one for name in one[k])


@pytest.mark.parametrize("make", [adam, adamw])
def test_the_bits_are_the_optimizers_own(make: Make) -> None:
    plain, straight, own, other = both(make)
    assert equal(plain, straight)
    assert same_state(own, other)


def test_it_really_is_called_straight(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    optimizer = adam(groups_of(model))
    direct = FusedStep(optimizer)
    taken: list[int] = []
    for step in range(4):
        fill(model, step)
        direct.step()
        taken.append(len(direct._groups))
    monkeypatch.setattr(torch.optim.Adam, "_init_group", lambda *_: pytest.fail("the optimizer took the step itself"))
    fill(model, 4)
    direct.step()
    assert taken == [2, 2, 2, 2]


def test_a_missing_gradient_is_left_to_the_optimizer() -> None:
    plain, straight, own, other = both(adamw, without=lambda step: "0.bias" if step % 2 else "")
    assert equal(plain, straight)
    assert same_state(own, other)


def test_a_gradient_that_comes_later_is_learned_from() -> None:
    plain, straight, own, other = both(adamw, without=lambda step: "2.weight" if step < 3 else "")
    assert equal(plain, straight)
    assert same_state(own, other)


@pytest.mark.parametrize("options", [{"amsgrad": True}, {"maximize": True}])
def test_options_that_ask_for_more_are_left_to_the_optimizer(options: dict[str, bool]) -> None:
    plain, straight, own, other = both(lambda groups: adam(groups, **options))
    assert equal(plain, straight)
    assert same_state(own, other)


def test_a_loaded_state_is_taken_up() -> None:
    plain, straight, own, other = both(adam, steps=3)
    kept = copy.deepcopy(other.state_dict())
    direct = FusedStep(other)
    for step in range(3, 5):
        fill(straight, step)
        direct.step()
    other.load_state_dict(kept)
    straight.load_state_dict(plain.state_dict())
    for step in range(3, 6):
        fill(plain, step)
        fill(straight, step)
        own.step()
        direct.step()
    assert equal(plain, straight)
    assert same_state(own, other)


def test_who_listens_to_the_steps_hears_them() -> None:
    model = network()
    optimizer = adam(groups_of(model))
    direct = FusedStep(optimizer)
    fill(model, 0)
    direct.step()
    heard: list[int] = []
    handle = optimizer.register_step_post_hook(lambda *_: heard.append(1))
    fill(model, 1)
    direct.step()
    handle.remove()
    fill(model, 2)
    direct.step()
    assert heard == [1]


def test_a_step_that_somebody_has_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    optimizer = adam(groups_of(model))
    direct = FusedStep(optimizer)
    fill(model, 0)
    direct.step()
    called: list[int] = []
    monkeypatch.setattr(torch.optim.Adam, "step", lambda *_: called.append(1))
    fill(model, 1)
    direct.step()
    assert called == [1]


class Louder(torch.optim.Adam):
    """A class of the user's own."""

    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.mul_(2)


def test_a_class_of_the_users_own_takes_its_own_steps() -> None:
    plain, straight, _, _ = both(lambda groups: Louder(groups, lr=1e-2, fused=True))
    assert equal(plain, straight)


def test_other_optimizers_step_as_ever() -> None:
    plain, straight, _, _ = both(lambda groups: torch.optim.SGD(groups, lr=1e-2, momentum=0.9))
    assert equal(plain, straight)


def test_a_found_infinity_changes_nothing() -> None:
    model = network()
    optimizer = adamw(groups_of(model))
    direct = FusedStep(optimizer)
    fill(model, 0)
    direct.step(torch.zeros(()))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    state = copy.deepcopy(optimizer.state_dict()["state"])
    fill(model, 1)
    direct.step(torch.ones(()))
    after: list[Tensor] = [parameter.detach() for parameter in model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    now = optimizer.state_dict()["state"]
    assert all(torch.equal(state[k][name], now[k][name]) for k in state for name in state[k])
