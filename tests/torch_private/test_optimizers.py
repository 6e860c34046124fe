"""Private parts of torch.optim."""

from __future__ import annotations

import torch
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import StepLR
from torch.optim.optimizer import register_optimizer_step_pre_hook

from trueloop.torch_private.optimizers import SCHEDULER_KEYS, has_step_hooks, steps_running, unscales_in_step


def _parameter() -> torch.nn.Parameter:
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return parameter


def test_steps_running_counts_steps_on_the_stack() -> None:
    counts: list[int] = []
    outer, inner = SGD([_parameter()], lr=0.1), SGD([_parameter()], lr=0.1)
    inner.register_step_pre_hook(lambda *_: counts.append(steps_running()))
    outer.register_step_pre_hook(lambda *_: inner.step())
    inner.step()
    outer.step()
    assert steps_running() == 0
    assert counts == [1, 2]


def test_has_step_hooks_sees_own_and_global_hooks() -> None:
    optimizer = SGD([_parameter()], lr=0.1)
    assert not has_step_hooks(optimizer)
    handle = optimizer.register_step_post_hook(lambda *_: None)
    assert has_step_hooks(optimizer)
    handle.remove()
    assert not has_step_hooks(optimizer)
    handle = register_optimizer_step_pre_hook(lambda *_: None)
    assert has_step_hooks(optimizer)
    handle.remove()
    assert not has_step_hooks(optimizer)


def test_a_fused_optimizer_unscales_in_its_step() -> None:
    assert unscales_in_step(Adam([_parameter()], fused=True))
    assert not unscales_in_step(Adam([_parameter()], fused=False))


def test_scheduler_keys_are_in_its_state_dict() -> None:
    scheduler = StepLR(SGD([_parameter()], lr=0.1), 1)
    assert set(SCHEDULER_KEYS) <= set(scheduler.state_dict())
