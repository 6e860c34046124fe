"""Precision, and settings of the process: what they change while a run lasts, and that they are put back."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.engine.small import SMALL, Read, begin, plain, ran, with_parts
from trueloop.engine.nonfinite_guard import Guard
from trueloop.engine.precision import Precision
from trueloop.engine.stop import Stop, catch_signals
from trueloop.engine.torch_settings import WORKSPACE, pick_device, torch_settings
from trueloop.engine.train import train

HOST = torch.device("cpu")


def settings_of_torch() -> tuple[Any, ...]:
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        os.environ.get(WORKSPACE),
    )


@pytest.mark.parametrize(("name", "expected"), [("fp32", "highest"), ("bf16", "highest"), ("tf32", "high")])
def test_settings_are_for_the_run_only(name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = settings_of_torch()
    with torch_settings(Precision(name, HOST), replace(SMALL, deterministic=True)):
        assert torch.get_float32_matmul_precision() == expected
        assert torch.backends.cudnn.allow_tf32 is (name != "fp32")
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cudnn.benchmark
        assert os.environ[WORKSPACE] == ":4096:8"
    assert settings_of_torch() == before


def test_settings_are_put_back_when_the_run_fails() -> None:
    before = settings_of_torch(), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def fails(inputs: Tensor, draws: torch.Generator) -> Tensor:
        assert torch.are_deterministic_algorithms_enabled()
        assert signal.getsignal(signal.SIGTERM) != before[1]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ran(replace(SMALL, deterministic=True, data=Read(more={"augment": fails})))
    assert (settings_of_torch(), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_users_own_workspace_stays() -> None:
    os.environ[WORKSPACE] = ":16:8"
    try:
        with torch_settings(Precision("fp32", HOST), replace(SMALL, deterministic=True)):
            assert os.environ[WORKSPACE] == ":16:8"
        assert os.environ[WORKSPACE] == ":16:8"
    finally:
        del os.environ[WORKSPACE]


def test_signals_are_listened_to_only_while_a_run_lasts() -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = Stop()
    with catch_signals(stop):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


def test_auto_finds_a_device_that_is_there() -> None:
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    assert pick_device("cpu") == HOST
    assert pick_device("cuda:1") == torch.device("cuda", 1)


# -- bf16 --


def test_bf16_computes_in_bf16_and_keeps_weights_and_gradients_in_fp32() -> None:
    seen: set[torch.dtype] = set()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = plain()

        def forward(self, inputs: Tensor) -> Tensor:
            answer: Tensor = self.inner(inputs)
            seen.add(answer.dtype)
            return answer

    over = ran(replace(SMALL, model=Net, precision="bf16", epochs=10))
    exact = ran(replace(SMALL, model=Net, epochs=10))
    assert seen == {torch.bfloat16, torch.float32}
    assert all(value.dtype == torch.float32 for value in over.weights.values())
    assert over.losses == pytest.approx(exact.losses, rel=0.1)
    assert over.losses != exact.losses


# -- fp16: users are refused it on a CPU, but its parts work there --


def in_half(recipe: Any = SMALL, scale: float = 2.0**16, interval: int = 2000) -> Any:
    """A loop with a scaler, built from its parts."""
    loop, kept, store = begin(recipe)
    precision = Precision("fp16", HOST)
    precision.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    guard = Guard(loop.parts.optimizer, HOST, loop.parts.model, ask_each_step=True)
    return with_parts(loop, precision=precision, guard=guard), kept, store


def test_fp16_learns_what_fp32_learns() -> None:
    loop, kept, _ = in_half(replace(SMALL, epochs=10))
    train(loop)
    assert kept.values() == pytest.approx(ran(replace(SMALL, epochs=10)).losses, rel=0.05)


def test_steps_that_the_scaler_refuses_do_not_advance_the_schedule() -> None:
    """A scale beyond what a half can hold: it comes down by halves, a step each, and each is a step not taken."""
    loop, kept, _ = in_half(replace(SMALL, schedule="linear", optimizer="sgd", epochs=10), scale=2.0**40)
    before = {name: value.clone() for name, value in loop.parts.model.state_dict().items()}
    assert loop.parts.precision.scaler is not None
    ending = train(loop)
    refused = int(math.log2(2.0**40 / loop.parts.precision.scaler.get_scale()))
    assert refused > 10
    assert ending.reason == "finished"
    assert loop.state.clock == 40 - refused
    taken = [not math.isnan(loss) for loss in kept.values()]
    expected = [SMALL.lr * (1 - sum(taken[:step]) / 40) for step in range(40)]
    assert kept.values("lr") == pytest.approx(expected), (
        "each step that is taken has the rate after the one taken before it"
    )
    assert loop.state.skipped == 0, "a scaler that finds its scale is no fault"
    assert kept.not_finite() == []
    assert any(not torch.equal(value, before[name]) for name, value in loop.parts.model.state_dict().items())


def test_clipping_is_after_the_scale_is_taken_out() -> None:
    loop, kept, _ = in_half(replace(SMALL, optimizer="sgd", lr=1.0, clip=0.01, epochs=None, steps=1))
    before = torch.cat([parameter.detach().flatten().clone() for parameter in loop.parts.parameters])
    train(loop)
    moved = torch.cat([parameter.detach().flatten() for parameter in loop.parts.parameters]) - before
    assert float(moved.norm()) == pytest.approx(0.01, rel=1e-2)
    assert kept.values("gradient_norm")[0] < 10, "the norm in the log is the gradient's own"


def test_data_that_are_no_numbers_are_not_taken_for_an_overflow() -> None:
    loop, kept, _ = in_half(replace(SMALL, data=Read(change=lambda x, y: (x * math.nan, y))))
    ending = train(loop)
    assert ending.reason == "nonfinite"
    assert "fault is in the data" in ending.message
    assert len(kept.not_finite()) == 1


def test_the_scale_is_part_of_a_checkpoint() -> None:
    loop, _, store = in_half(replace(SMALL, epochs=2), scale=2.0**40)
    train(loop)
    resumed, _, _ = in_half(replace(SMALL, epochs=4))
    resumed.parts.saver.store = store
    assert resumed.recovery.go_back()
    assert resumed.parts.precision.scaler is not None
    assert loop.parts.precision.scaler is not None
    assert resumed.parts.precision.scaler.get_scale() == loop.parts.precision.scaler.get_scale() != 2.0**16


def test_a_precision_without_a_scaler_does_nothing_of_it() -> None:
    precision = Precision("fp32", HOST)
    loss = torch.tensor(2.0)
    assert precision.scaled(loss) is loss
    assert not precision.is_overflow(loss)
    assert precision.state() == {}
    assert precision.autocast() is precision.autocast(), "no object a step for nothing"
