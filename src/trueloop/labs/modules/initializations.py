"""initializations: Which initial weights let a signal pass through thirty layers, forward and backward?

A layer multiplies the spread of its input by a factor that depends on its initial weights. Over thirty layers a factor
of 0.5 becomes 1e-9 and a factor of 2 becomes 1e9. Kaiming's and Xavier's formulas make it 1, for ReLU and for tanh.

You will measure the spread in each layer, and the gradient that arrives at the first one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import init

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]

LAYERS, WIDTH = 30, 128
WAYS: dict[str, tuple[type[nn.Module], Callable[[Tensor], object]]] = {
    "ReLU, normal 0.01": (nn.ReLU, lambda weight: init.normal_(weight, std=0.01)),
    "ReLU, normal 1": (nn.ReLU, lambda weight: init.normal_(weight, std=1.0)),
    "ReLU, torch's default": (nn.ReLU, lambda _: None),
    "ReLU, Xavier": (nn.ReLU, init.xavier_normal_),
    "ReLU, Kaiming": (nn.ReLU, lambda weight: init.kaiming_normal_(weight, nonlinearity="relu")),
    "tanh, Xavier": (nn.Tanh, init.xavier_normal_),
}


def spreads(activation: type[nn.Module], initialize: Callable[[Tensor], object]) -> tuple[list[float], float]:
    """The spread of each layer's output, and the norm of the gradient of the first weight."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    x, found = torch.randn(64, WIDTH), []
    for layer in layers:
        initialize(layer.weight)
        init.zeros_(layer.bias)
        x = activation()(layer(x))
        found.append(x.std().item())
    x.mean().backward()
    assert layers[0].weight.grad is not None
    return found, layers[0].weight.grad.norm().item()


@dataclass(frozen=True)
class Way:
    spreads: list[float]
    first_gradient: float


def measure() -> dict[str, Way]:
    return {name: Way(*spreads(*way)) for name, way in WAYS.items()}


def answer(page: Page, measured: dict[str, Way]) -> None:
    rows = [(name, way.spreads[0], way.spreads[-1], way.first_gradient) for name, way in measured.items()]
    page.table(
        f"{LAYERS} layers of {WIDTH}", ("initial weights", "spread, layer 1", "layer 30", "first gradient"), rows
    )
    series = tuple(
        Series(name, tuple((float(at), max(value, 1e-30)) for at, value in enumerate(way.spreads, 1)), color=color)
        for color, (name, way) in enumerate(measured.items())
    )
    page.show(Plot("Spread of the outputs", series, Axis("layer"), Axis("standard deviation", "log")))
    last = {name: way.spreads[-1] for name, way in measured.items()}
    page.says(
        "Normal 0.01 vanishes, normal 1 explodes.", last["ReLU, normal 0.01"] < 1e-15 and last["ReLU, normal 1"] > 1e15
    )
    page.says("Kaiming keeps the spread of ReLU within a factor of 4 over 30 layers.", 0.2 < last["ReLU, Kaiming"] < 4)
    weak = last["ReLU, Xavier"] < 1e-3
    page.says("Xavier is made for tanh: with ReLU, half of the signal is cut, and it fades.", weak)
    page.says("With tanh, Xavier holds.", 0.05 < last["tanh, Xavier"] < 1)
    default = last["ReLU, torch's default"] < 1e-6
    page.says("torch's default for `nn.Linear` fades with depth, too: deep ReLU networks need their own.", default)


LAB = Lab(code=(spreads,), measure=measure, answer=answer)
