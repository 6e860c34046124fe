"""precisions: What do fp16 with a scaler and bf16 cost in accuracy, and what do they give in speed?

float16 has more digits, bfloat16 has the range of float32. Small gradients become zero in float16, so the loss is
scaled up before backward and the gradients down after it. bfloat16 needs no scaler.

You will measure which gradients are lost, train one network in four ways to the same accuracy, and time them. What
is fastest depends on the hardware: a processor without units for these types is slower with them.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]

WAYS: dict[str, tuple[torch.dtype, bool]] = {
    "fp32": (torch.float32, False),
    "fp16, no scaler": (torch.float16, False),
    "fp16 with scaler": (torch.float16, True),
    "bf16": (torch.bfloat16, False),
}


def lost(dtype: torch.dtype, scale: float) -> float:
    """Share of gradients between 1e-10 and 1e-4 that become zero."""
    gradients = torch.logspace(-10, -4, 1000, dtype=torch.float64)
    return ((gradients * scale).to(dtype) == 0).double().mean().item()


def data(device: str) -> tuple[Tensor, Tensor]:
    x = torch.randn(256, 32)
    return x.to(device), ((x[:, 0] * x[:, 1] > 0).long() + 2 * (x[:, 2] > 0).long()).to(device)


class Training:
    def __init__(self, dtype: torch.dtype, scaled: bool, device: str, width: int) -> None:
        torch.manual_seed(0)
        self.dtype, self.device = dtype, device
        self.x, self.y = data(device)
        self.model = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 4)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)
        self.scaler = torch.amp.GradScaler(device, enabled=scaled)

    def step(self, weight: float = 1.0) -> None:
        self.optimizer.zero_grad()
        with self.autocast():
            loss = F.cross_entropy(self.model(self.x), self.y) * weight
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.device == "cuda":
            torch.cuda.synchronize()

    def autocast(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.dtype == torch.float32 else torch.autocast(self.device, dtype=self.dtype)

    def accuracy(self) -> float:
        with torch.no_grad(), self.autocast():
            return (self.model(self.x).argmax(1) == self.y).double().mean().item()


def gradient_of_small_loss(training: Training) -> Tensor:
    """Of a loss of about 1e-6, as float32 numbers after unscaling: the part of the first layer."""
    training.optimizer.zero_grad()
    with training.autocast():
        output = training.model(training.x)
    training.scaler.scale((output.float() * 1e-6).mean()).backward()
    training.scaler.unscale_(training.optimizer)  # does nothing without a scaler
    gradient = training.model[0].weight.grad
    assert isinstance(gradient, Tensor)
    return gradient.clone()


@dataclass(frozen=True)
class Measured:
    device: str
    lost: dict[str, float]
    accuracy: dict[str, float]
    zeros: dict[str, float]  # share of zero gradients with a small loss
    seconds: dict[str, float]


def measure() -> Measured:
    warnings.filterwarnings("ignore", message="mkldnn_matmul failed")  # a processor without units for bf16
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    accuracy, zeros, steps = {}, {}, dict[str, Callable[[], None]]()
    for name, (dtype, scaled) in WAYS.items():
        training = Training(dtype, scaled, device, width=32)
        for _ in range(80):
            training.step()
        accuracy[name] = training.accuracy()
        zeros[name] = (gradient_of_small_loss(Training(dtype, scaled, device, 32)) == 0).double().mean().item()
        steps[name] = Training(dtype, scaled, device, width=64 if device == "cpu" else 8192).step
    kept = {"fp16": lost(torch.float16, 1), "fp16 scaled by 65536": lost(torch.float16, 65536.0)}
    return Measured(device, {**kept, "bf16": lost(torch.bfloat16, 1)}, accuracy, zeros, interleaved(steps, rounds=5))


def answer(page: Page, measured: Measured) -> None:
    page.table("Gradients from 1e-10 to 1e-4 that become zero", ("type", "share"), measured.lost.items())
    rows = [(name, measured.accuracy[name], measured.zeros[name], measured.seconds[name] * 1e3) for name in WAYS]
    heads = ("way", "accuracy after 80 steps", "zero gradients, loss of 1e-6", "milliseconds a step")
    page.table(f"Trained on {measured.device}", heads, rows)
    some = measured.lost["fp16"] > 0.3 and measured.lost["bf16"] == 0
    page.says("float16 loses gradients under 3e-8; bfloat16 has the range of float32 and loses none.", some)
    page.says("Scaled by 65536, float16 keeps them all.", measured.lost["fp16 scaled by 65536"] == 0)
    zeros, accuracy = measured.zeros, measured.accuracy
    saved = zeros["fp16, no scaler"] > zeros["fp16 with scaler"] + 0.2 and zeros["bf16"] < zeros["fp32"] + 0.05
    page.says("In a network with a small loss, the scaler keeps gradients that float16 alone loses.", saved)
    near = all(abs(accuracy[name] - accuracy["fp32"]) < 0.05 for name in ("fp16 with scaler", "bf16"))
    page.says(
        "fp16 with scaler and bf16 train to the accuracy of fp32, within 5 points.", near and accuracy["fp32"] > 0.9
    )
    fastest = min(measured.seconds, key=lambda name: measured.seconds[name])
    page.says(f"Fastest on this machine: {fastest}. This depends on the hardware.", measured.seconds[fastest] > 0)


LAB = Lab(code=(lost, Training, gradient_of_small_loss), measure=measure, answer=answer)
