"""optimizer_kernel=triton on a real CUDA device: torch's update up to rounding, resumed bit-identical, no wait for the
device, tried and proved by `tune`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import torch
from torch import nn

from tests.engine.small import CLASSES, SMALL, WIDTH, Read, begin, furthest, ran, same_bits, with_parts
from trueloop.engine.fused_adam import FusedStep
from trueloop.recipe.recipe import Recipe
from trueloop.results.tune import Trial
from trueloop.tune.tune import TuneRequest, tune

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]
MANY = Path(__file__).parents[2] / "benchmarks" / "many_tensors.py"


def deep() -> nn.Module:
    """Tensors of more than a block, of odd sizes, and of one number."""
    inner = (layer for _ in range(20) for layer in (nn.Linear(37, 37), nn.PReLU()))
    return nn.Sequential(nn.Linear(WIDTH, 1300), nn.ReLU(), nn.Linear(1300, 37), *inner, nn.Linear(37, CLASSES))


def recipe(**changes: Any) -> Recipe:
    made = replace(SMALL, device="cuda", model=deep, data=Read(200), weight_decay=0.1, clip=1.0, log_every=5, epochs=2)
    return replace(made, optimizer_kernel="triton", **changes)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_training_is_torchs(precision: str) -> None:
    ours = ran(recipe(precision=precision))
    torchs = ran(replace(recipe(precision=precision), optimizer_kernel="torch"))
    assert furthest(ours.weights, torchs.weights) < (1e-4 if precision == "fp32" else 5e-3)


@pytest.mark.parametrize("after", ["triton", "torch"])
def test_a_run_is_resumed_with_either_kernel(after: Any) -> None:
    asked = recipe(save_every=1, deterministic=True)
    whole = ran(asked)
    cut, _, store = begin(asked)
    with_parts(cut, total_steps=7).train()
    resumed = ran(replace(asked, optimizer_kernel=after), store=store, go_on=True)
    if after == "triton":
        assert same_bits(resumed.weights, whole.weights)
    else:
        assert furthest(resumed.weights, whole.weights) < 1e-4


def test_a_nonfinite_step_changes_nothing_and_gradients_may_move() -> None:
    model = deep().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    taking, torchs = FusedStep(optimizer, "triton"), copy.deepcopy(model)
    other = FusedStep(torch.optim.AdamW(torchs.parameters(), lr=1e-2, fused=True))
    kept = []  # old gradients stay alive, so that new ones get new addresses
    for step in range(6):
        draws = torch.Generator("cuda").manual_seed(step)
        for mine, its in zip(model.parameters(), torchs.parameters(), strict=True):
            mine.grad = torch.randn(mine.shape, device="cuda", generator=draws)
            its.grad = mine.grad.clone()
            kept.append(mine.grad)
        for each in (taking, other):
            each.step(torch.full((), float(step == 3), device="cuda"))
    for one, two in zip(model.parameters(), torchs.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    assert all(float(state["step"]) == 5 for state in optimizer.state.values())


@pytest.fixture
def plain_debug_mode_after() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


def test_the_host_does_not_wait_for_the_device(plain_debug_mode_after: None) -> None:
    model = deep().cuda()
    taking = FusedStep(torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True), "triton")
    flag = torch.zeros((), device="cuda")
    for step in range(4):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        if step == 2:  # the kernel is compiled
            torch.cuda.set_sync_debug_mode("error")
        taking.step(flag)


def test_tune_tries_it_proves_it_and_says_what_it_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    shown: list[Trial] = []
    fixed = {"compile": "off", "program": "eager", "precision": "fp32"}
    begun = monotonic()
    made = tune(TuneRequest(str(MANY), seconds=150.0, seeds=2, settings=fixed), shown.append)
    tried = [trial for trial in shown if trial.added.get("optimizer_kernel") == "triton"]
    print(f"{monotonic() - begun:.0f} s", [(t.added, t.outcome, round(t.gain, 3), t.said) for t in shown])
    assert tried, [trial.knob for trial in shown]
    assert tried[0].outcome == "kept", (tried[0].gain, tried[0].said)
    assert made.best.changes["optimizer_kernel"] == "triton"
