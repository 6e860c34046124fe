"""adamw-from-scratch: What do Adam's two averages and the W in AdamW change?

Adam divides an average of the gradients by the root of an average of their squares: the size of a gradient drops out,
its sign and its noise stay. Weight decay that is added to the gradient drops out with it; AdamW shrinks the weight
itself instead. Both averages begin at zero, and a correction makes the first steps as large as later ones.

Exercise: AdamW, checked by the claims of `trueloop probe` against torch.optim.AdamW.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]


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

    trueloop lab adamw-from-scratch THIS_FILE.py
"""

import torch
from torch.optim import Optimizer


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
