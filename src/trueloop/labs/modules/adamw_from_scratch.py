<<<<<<< HEAD
"""adamw-from-scratch: What do Adam's two averages and the W in AdamW change?

Adam divides an average of the gradients by the root of an average of their squares: the size of a gradient drops out,
its sign and its noise stay. Weight decay that is added to the gradient drops out with it; AdamW shrinks the weight
itself instead. Both averages begin at zero, and a correction makes the first steps as large as later ones.

Exercise: AdamW, checked by the claims of `trueloop probe` against torch.optim.AdamW.
=======
"""adamw-from-scratch: What do the two averages, the bias correction and the W of AdamW do?

Adam divides a running mean of the gradient by the root of a running mean of its square, so the size of the gradient
cancels. Both means begin at zero and are corrected for that. AdamW takes weight decay out of this division.

Exercise: write it, checked by the claims of `trueloop probe` against `torch.optim.AdamW`: same trajectory, state that
survives a checkpoint, groups, closures.
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
"""

from __future__ import annotations

<<<<<<< HEAD
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
=======
import math
from dataclasses import dataclass

import torch
from torch import Tensor
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]

<<<<<<< HEAD

def first_step(optimizer: Callable[..., Any], gradient: float) -> float:
    """How far a weight moves in its first step."""
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    weight.grad = torch.tensor(gradient, dtype=torch.float64)
    optimizer([weight], lr=0.01).step()
    return abs(weight.item())


def decayed(optimizer: Callable[..., Any], noise: float) -> float:
    """What is left of a weight of 1 after 200 steps of decay, under gradients that are noise around zero."""
    weight = nn.Parameter(torch.ones(512, dtype=torch.float64))
    made = optimizer([weight], lr=0.01, weight_decay=0.1)
    for _ in range(200):
        weight.grad = noise * torch.randn(512, dtype=torch.float64)
        made.step()
    return weight.mean().item()


def measure() -> dict[str, float]:
    found: dict[str, float] = {}
    for gradient in (1e-3, 1.0, 1e3):
        found[f"first step of Adam, gradient {gradient:g}"] = first_step(torch.optim.Adam, gradient)
        found[f"first step of SGD, gradient {gradient:g}"] = first_step(torch.optim.SGD, gradient)
    for name, optimizer in (("Adam", torch.optim.Adam), ("AdamW", torch.optim.AdamW)):
        for noise in (1.0, 100.0):
            found[f"left by {name}, noise {noise:g}"] = decayed(optimizer, noise)
    return found


def answer(page: Page, measured: dict[str, float]) -> None:
    page.table("Measured", ("quantity", "value"), measured.items())
    steps = [value for name, value in measured.items() if name.startswith("first step of Adam")]
    same = all(abs(step / 0.01 - 1) < 1e-3 for step in steps)
    grows = measured["first step of SGD, gradient 1000"] > 1000 * measured["first step of SGD, gradient 0.001"]
    page.says("Adam's first step is lr, whether the gradient is 0.001 or 1,000; SGD's is not.", same and grows)
    lost = measured["left by Adam, noise 100"] > 0.95
    drops = "In Adam, decay competes with the gradient's size: under noise of 100 almost nothing of it is left."
    page.says(f"{drops} The weight is still {measured['left by Adam, noise 100']:.2f}.", lost)
    wanted = (1 - 0.01 * 0.1) ** 200
    left = [value for name, value in measured.items() if name.startswith("left by AdamW")]
    apart = "AdamW decays by (1 - lr * decay) in each step, whatever the gradients: "
    page.says(f"{apart}{wanted:.2f} is left on paper.", all(abs(value - wanted) < 0.02 for value in left))


SKELETON = '''"""AdamW, as torch.optim.AdamW computes it (without amsgrad, maximize, foreach).

    in each step, for each weight with a gradient g, with t counting the steps of this weight from 1:
    weight = weight * (1 - lr * weight_decay)
    m = beta1 * m + (1 - beta1) * g                 m and v begin at 0
    v = beta2 * v + (1 - beta2) * g * g
    weight = weight - lr * (m / (1 - beta1 ** t)) / (sqrt(v / (1 - beta2 ** t)) + eps)

m, v and t belong into `self.state[weight]`. Read lr, betas, eps and weight_decay from the param group in
every step.
=======
SIZES = (1e-4, 1.0, 1e4)


def first_step(optimizer: type[torch.optim.Optimizer], gradient: float) -> float:
    """How far a weight moves in its first step, in units of lr."""
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    made = optimizer([weight], lr=0.001)  # type: ignore[call-arg]
    weight.grad = torch.full_like(weight, gradient)
    made.step()
    return -weight.item() / 0.001


def uncorrected(steps: int, beta1: float = 0.9, beta2: float = 0.999) -> float:
    """The last of these steps by a gradient of 1 without bias correction, in units of lr."""
    m = v = 0.0
    for _ in range(steps):
        m = beta1 * m + (1 - beta1)
        v = beta2 * v + (1 - beta2)
    return m / math.sqrt(v)


def decayed(optimizer: type[torch.optim.Optimizer], size: float) -> float:
    """Share of a weight that is left after 100 steps of noise of this size: what weight decay took."""
    weights = torch.ones(4000, dtype=torch.float64, requires_grad=True)
    made = optimizer([weights], lr=0.01, weight_decay=0.1)  # type: ignore[call-arg]
    draws = torch.Generator().manual_seed(0)
    for _ in range(100):
        weights.grad = torch.randn(4000, generator=draws, dtype=torch.float64) * size
        made.step()
    mean: Tensor = weights.detach().mean()
    return mean.item()


@dataclass(frozen=True)
class Measured:
    first: dict[str, list[float]]  # optimizer -> by size of the gradient
    uncorrected: dict[int, float]
    left: dict[str, list[float]]


def measure() -> Measured:
    kinds = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}
    return Measured(
        {name: [first_step(kind, size) for size in SIZES] for name, kind in kinds.items() if name != "Adam"},
        {step: uncorrected(step) for step in (1, 10, 100, 1000)},
        {name: [decayed(kind, size) for size in SIZES] for name, kind in kinds.items() if name != "SGD"},
    )


def answer(page: Page, measured: Measured) -> None:
    heads = tuple(f"gradient {size:g}" for size in SIZES)
    page.table("First step, in units of lr", ("optimizer", *heads), [(k, *v) for k, v in measured.first.items()])
    page.table("A constant gradient without bias correction", ("step", "in units of lr"), measured.uncorrected.items())
    note = "weight_decay=0.1, lr=0.01, 100 steps of noise: (1 - 0.001) ** 100 = 0.905 is what decay alone leaves."
    page.table("Mean weight left of 1", ("optimizer", *heads), [(k, *v) for k, v in measured.left.items()], note)
    same = all(abs(step - 1) < 1e-3 for step in measured.first["AdamW"])
    same = same and all(abs(step / size - 1) < 1e-6 for step, size in zip(measured.first["SGD"], SIZES, strict=True))
    page.says("AdamW's first step is lr, whatever the gradient's size; SGD's is proportional to it.", same)
    wrong = abs(measured.uncorrected[1] - 3.162) < 1e-3
    page.says("Without bias correction the first step would be 3.2 times lr: (1 - 0.9) / sqrt(1 - 0.999).", wrong)
    steady = all(abs(left - 0.905) < 0.02 for left in measured.left["AdamW"])
    page.says("AdamW's decay is the same whatever the gradients are.", steady)
    adam = measured.left["Adam"]
    page.says("Adam's decay is divided with the gradient: large gradients switch it off.", adam[2] > 0.98)
    page.says("With tiny gradients Adam's decay takes full steps of lr.", adam[0] < 0.3)


SKELETON = '''"""Write AdamW as an optimizer, without torch.optim.

    t = t + 1
    weight = weight * (1 - lr * weight_decay)
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient ** 2
    weight = weight - lr * (m / (1 - beta1 ** t)) / (sqrt(v / (1 - beta2 ** t)) + eps)

m and v begin at zero. Options are read from the group in each step; t, m and v are kept in self.state[p], so that they
are saved with the optimizer. A parameter without a gradient stays as it is (no decay). Write the weights in place,
under torch.no_grad(), and do not write the gradient. `step(closure)` returns the closure's loss.
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

    trueloop lab adamw-from-scratch THIS_FILE.py
"""

import torch
from torch.optim import Optimizer


<<<<<<< HEAD
class AdamW(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        raise NotImplementedError("write AdamW.step")
'''
HINT = "compare line by line: the decay first, t from 1, both corrections, and eps outside of the root"


def check(attempt: Attempt) -> None:
    hints = {"same-trajectory": HINT}
    attempt.optimizer("AdamW", torch.optim.AdamW, "torch.optim.AdamW", options={"lr": 0.01}, hints=hints)
    other = {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.3}
    read = {"same-trajectory": "it holds with the defaults only: is every value read from the param group?"}
    attempt.optimizer(
        "AdamW", torch.optim.AdamW, "torch.optim.AdamW", options=other, claims=("same-trajectory",), hints=read
    )


LAB = Lab(code=(first_step, decayed), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
=======
class MyAdamW(Optimizer):
    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step(self, closure=None):
        raise NotImplementedError("write MyAdamW.step")
'''

CLAIMS = (
    "same-trajectory", "state-survives-checkpoint", "param-groups-apart", "parameters-without-gradient-stay",
    "learning-rate-is-read-each-step", "closure-is-used", "weight-decay-shrinks", "zero-gradients-are-finite",
    "optimizers-are-independent", "step-writes-weights-only",
)  # fmt: skip


def check(attempt: Attempt) -> None:
    hints = {
        "state-survives-checkpoint": "t, m and v: only what is in self.state[p] is saved and loaded",
        "weight-decay-shrinks": "does decay multiply the weights, or does it enter the gradient and with it m and v?",
    }
    attempt.optimizer("MyAdamW", torch.optim.AdamW, "torch.optim.AdamW", claims=CLAIMS, hints=hints)


LAB = Lab(code=(first_step, uncorrected, decayed), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
