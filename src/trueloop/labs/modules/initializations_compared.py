"""initializations-compared: What does the initialization do to signals and gradients 20 layers deep?

A layer multiplies the spread of its input by a factor; 20 layers multiply it by the 20th power. He's initialization
(Kaiming) makes the factor 1 for ReLU, Xavier's for layers whose slope is 1.

You will send one batch forward and backward through 20 ReLU layers for each initialization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]

DEPTH, WIDTH = 20, 256
SCHEMES: dict[str, Callable[[Tensor], Any]] = {
    "normal, std 1": nn.init.normal_,
    "normal, std 0.01": lambda weight: nn.init.normal_(weight, std=0.01),
    "zeros": nn.init.zeros_,
    "torch's default of Linear": lambda weight: nn.init.kaiming_uniform_(weight, a=5**0.5),
    "Xavier": nn.init.xavier_normal_,
    "Kaiming": lambda weight: nn.init.kaiming_normal_(weight, nonlinearity="relu"),
    "orthogonal, gain sqrt(2)": lambda weight: nn.init.orthogonal_(weight, gain=2**0.5),
}


def signals(initialize: Callable[[Tensor], Any]) -> tuple[list[float], list[float]]:
    """By layer: root mean square of the output, and of the weight's gradient."""
    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)]
    for layer in layers:
        initialize(layer.weight)
    x, sizes = torch.randn(256, WIDTH), []
    for layer in layers:
        x = torch.relu(layer(x))
        sizes.append(rms(x))
    (x * torch.randn_like(x)).mean().backward()
    return sizes, [rms(layer.weight.grad) for layer in layers if layer.weight.grad is not None]


def rms(x: Tensor) -> float:
    return x.detach().double().square().mean().sqrt().item()


@dataclass(frozen=True)
class Measured:
    outputs: dict[str, list[float]]
    gradients: dict[str, list[float]]


def measure() -> Measured:
    found = {name: signals(scheme) for name, scheme in SCHEMES.items()}
    return Measured({name: each[0] for name, each in found.items()}, {name: each[1] for name, each in found.items()})


def answer(page: Page, measured: Measured) -> None:
    outputs, gradients = measured.outputs, measured.gradients
    lines = tuple(
        Series(name, tuple(enumerate(sizes, 1)), number)
        for number, (name, sizes) in enumerate(outputs.items())
        if all(sizes)
    )
    page.show(Plot("Size of the output by layer", lines, Axis("layer"), Axis("root mean square", "log")))
    rows = [(name, sizes[0], sizes[-1], gradients[name][0], gradients[name][-1]) for name, sizes in outputs.items()]
    heads = ("initialization", "output of layer 1", f"of layer {DEPTH}", "gradient of layer 1", f"of layer {DEPTH}")
    page.table("Root mean squares", heads, rows)
    last = {name: sizes[-1] for name, sizes in outputs.items()}
    keeps = all(0.1 < last[name] < 10 for name in ("Kaiming", "orthogonal, gain sqrt(2)"))
    page.says("Kaiming and scaled orthogonal weights keep the size of the signal.", keeps)
    halves = 2 ** -(DEPTH / 2) / 10 < last["Xavier"] < 2 ** -(DEPTH / 2) * 10
    page.says("Xavier is made for slope 1: each ReLU takes a factor of sqrt(2), about 1000 in 20 layers.", halves)
    page.says("A standard deviation of 1 explodes: over 1e18 after 20 layers.", last["normal, std 1"] > 1e18)
    page.says("One of 0.01 vanishes: under 1e-15.", 0 < last["normal, std 0.01"] < 1e-15)
    default = last["torch's default of Linear"]
    page.says("torch's default for Linear loses more than Xavier in deep ReLU networks.", default < last["Xavier"] / 10)
    dead = not any(gradients["zeros"])
    page.says("Zeros: every gradient is zero, and training cannot begin.", dead)


LAB = Lab(code=(signals, rms), measure=measure, answer=answer)
