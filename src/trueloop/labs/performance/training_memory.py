"""training-memory: How much memory will a training need, before it runs?

Four parts: parameters, gradients (as large), the optimizer's state (Adam: twice as large), and activations, which
grow with the batch. The first three are known from the number of parameters; the fourth is what the backward needs
again.

You will predict all four for a small network on paper, and measure them with the profiler, which records every
allocation.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from trueloop.labs.lab import Lab, Page
from trueloop.results.document import Bars, Code

__all__ = ["LAB"]

BATCH, WIDTH, LAYERS, NUMBER = 256, 512, 4, 4  # NUMBER: bytes of a float32


def predicted(batch: int) -> dict[str, int]:
    """On paper, for LAYERS of Linear and ReLU: a Linear keeps its input, a ReLU its output; the next Linear's input
    is the same tensor. So each layer keeps one tensor of batch * width, and the batch itself is there already."""
    parameters = LAYERS * (WIDTH * WIDTH + WIDTH) * NUMBER
    return {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer": 2 * parameters,  # Adam: two running means
        "activations": LAYERS * batch * WIDTH * NUMBER,
    }


def allocated(function: Callable[[], Any]) -> tuple[int, Any]:
    """Bytes that a call allocates and does not free, and its result."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = function()
    return sum(int(event.self_cpu_memory_usage) for event in profiler.key_averages()), result


def measured_parts(batch: int) -> dict[str, int]:
    x = torch.randn(batch, WIDTH)
    layers = (layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU()))
    parameters, model = allocated(lambda: nn.Sequential(*layers))
    optimizer = torch.optim.Adam(model.parameters())
    activations, y = allocated(lambda: model(x))
    del y
    gradients, _ = allocated(lambda: model(x).sum().backward())  # activations come and go, gradients stay
    state, _ = allocated(optimizer.step)
    return {
        "parameters": parameters,
        "gradients": gradients,
        "optimizer": state,
        "activations": activations,
    }


@dataclass(frozen=True)
class Measured:
    predicted: dict[str, int]
    measured: dict[str, int]
    twice: dict[str, int]  # with a batch of twice the size


def measure() -> Measured:
    torch.set_num_threads(1)
    return Measured(predicted(BATCH), measured_parts(BATCH), measured_parts(2 * BATCH))


def answer(page: Page, measured: Measured) -> None:
    rows = [
        (part, wanted, measured.measured[part], measured.measured[part] / wanted, measured.twice[part])
        for part, wanted in measured.predicted.items()
    ]
    heads = ("part", "bytes predicted", "measured", "ratio", f"with a batch of {2 * BATCH}")
    page.table(f"{LAYERS} layers of {WIDTH}, a batch of {BATCH}, Adam", heads, rows)
    found = measured.measured
    page.show(Bars("Measured", tuple(found), tuple(found.values()), tuple(f"{v / 1e6:.1f} MB" for v in found.values())))
    page.show(Code("trueloop profile train.py   # the same parts of your own script, and its peak", title="Try it"))
    near = {part: abs(found[part] / wanted - 1) < 0.03 for part, wanted in measured.predicted.items()}
    page.says(
        "Parameters and gradients: as predicted, 4 bytes a number each.", near["parameters"] and near["gradients"]
    )
    page.says("Adam's state is twice the parameters: 16 bytes a parameter in all.", near["optimizer"])
    page.says("Activations: one tensor for each layer of Linear and ReLU, as predicted.", near["activations"])
    grown = measured.twice["activations"] / found["activations"]
    same = all(abs(measured.twice[part] / found[part] - 1) < 0.03 for part in ("parameters", "gradients", "optimizer"))
    page.says("Twice the batch is twice the activations; the rest stays.", same and abs(grown - 2) < 0.05)


LAB = Lab(code=(predicted, allocated, measured_parts), measure=measure, answer=answer)
