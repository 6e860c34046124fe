"""A step of one's own on a CUDA device: guarded without waiting, scaled in half precision, resumed exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.engine.small import ran, same_bits
from tests.engine.test_own_step import GAN, NOISE
from trueloop.checkpoint.store import Memory
from trueloop.engine.loop import Loop

pytestmark = pytest.mark.gpu


def fused(models: Any) -> dict[str, torch.optim.Optimizer]:
    return {name: torch.optim.Adam(models[name].parameters(), lr=1e-3, fused=True) for name in models}


def healthy(loop: Loop) -> float:
    return 1.0


def step_with(spoil: Callable[[Loop], float]) -> Callable[[Loop, Any], dict[str, torch.Tensor]]:
    def step(loop: Loop, batch: Any) -> dict[str, torch.Tensor]:
        real, softplus = batch.inputs, torch.nn.functional.softplus
        fake = loop.models["generator"](torch.randn(len(real), NOISE, device=loop.device))
        critic = softplus(-loop.models["critic"](real)).mean() + softplus(loop.models["critic"](fake.detach())).mean()
        loop.update(critic * spoil(loop), "critic")
        generator = softplus(-loop.models["critic"](fake)).mean()
        loop.update(generator, "generator")
        return {"critic": critic, "generator": generator}

    return step


def distance(models: Any, batch: Any) -> dict[str, torch.Tensor]:
    fake = models["generator"](torch.randn(len(batch.inputs), NOISE, device=batch.inputs.device))
    return {"distance": (fake.float().mean(0) - batch.inputs.mean(0)).norm()}


ON_GPU = replace(GAN, device="cuda", step=step_with(healthy), optimizers=fused, evaluate=distance)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_resumed_run_is_bit_identical(precision: Any) -> None:
    recipe, store = replace(ON_GPU, precision=precision, deterministic=True), Memory()
    whole = ran(replace(recipe, epochs=4))
    ran(replace(recipe, epochs=2), store)
    assert same_bits(whole.weights, ran(replace(recipe, epochs=4), store, go_on=True).weights)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_host_does_not_wait_for_an_update() -> None:
    inner = step_with(healthy)

    def step(loop: Loop, batch: Any) -> dict[str, torch.Tensor]:
        torch.cuda.set_sync_debug_mode("error" if loop.step > 1 else "default")
        try:
            return inner(loop, batch)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    assert ran(replace(ON_GPU, step=step, log_every=100)).ending.reason == "finished"


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_non_finite_loss_reaches_no_weight(precision: Any) -> None:
    step = step_with(lambda loop: math.nan if loop.step == 5 else 1.0)
    run = ran(replace(ON_GPU, step=step, precision=precision, on_nonfinite="skip"))
    assert run.loop.state.skipped == 1
    assert all(bool(torch.isfinite(each).all()) for each in run.loop.model.parameters())


def test_many_updates_in_a_step() -> None:
    """More than the guard keeps flags for."""

    def step(loop: Loop, batch: Any) -> None:
        for number in range(700):
            scores = loop.models["critic"](batch.inputs)
            loop.update(scores.square().mean() * (math.nan if (loop.step, number) == (1, 600) else 1.0), "critic")

    run = ran(replace(ON_GPU, step=step, epochs=1, on_nonfinite="skip"))
    assert run.loop.state.skipped == 1
    assert all(bool(torch.isfinite(each).all()) for each in run.loop.model.parameters())
