"""sgd-with-momentum: What does momentum do, and what does an optimizer have to remember for it?

In a narrow valley plain SGD must take steps that are small enough for the steep direction, and then it crawls along the
flat one. Momentum adds up the gradients of earlier steps: what points back and forth cancels, what points one way
grows. It costs one number for each weight, and that number belongs into every checkpoint.

Exercise: SGD with momentum and weight decay, checked by the claims of `trueloop probe` against torch.optim.SGD.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]


def valley(weights: Tensor) -> Tensor:
    """100 times as steep in one direction as in the other."""
    return (torch.tensor([1.0, 100.0]) * weights**2).sum() / 2


def descent(momentum: float, steps: int = 150) -> list[float]:
    weights = nn.Parameter(torch.tensor([1.0, 1.0]))
    optimizer = torch.optim.SGD([weights], lr=0.01, momentum=momentum)
    curve = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = valley(weights)
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve


def numbers_kept(momentum: float) -> int:
    """In the optimizer's state, after a step, for 1,000 weights."""
    weights = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.SGD([weights], lr=0.01, momentum=momentum)
    weights.grad = torch.ones(1000)
    optimizer.step()
    return sum(value.numel() for value in optimizer.state[weights].values() if isinstance(value, Tensor))


@dataclass(frozen=True)
class Measured:
    curves: dict[str, list[float]]
    kept: dict[str, int]


def measure() -> Measured:
    values = {"momentum 0": 0.0, "momentum 0.5": 0.5, "momentum 0.9": 0.9}
    return Measured(
        {name: descent(value) for name, value in values.items()},
        {name: numbers_kept(value) for name, value in values.items()},
    )


def answer(page: Page, measured: Measured) -> None:
    rows = [(name, curve[49], curve[-1], measured.kept[name]) for name, curve in measured.curves.items()]
    columns = ("", "loss after 50 steps", "after 150", "numbers kept for 1,000 weights")
    page.table("A valley 100 times as steep one way, lr 0.01", columns, rows)
    series = tuple(
        Series(name, tuple((float(step), max(loss, 1e-12)) for step, loss in enumerate(curve)), color=at)
        for at, (name, curve) in enumerate(measured.curves.items())
    )
    page.show(Plot("Loss", series, Axis("step"), Axis("loss", "log")))
    plain, fast = measured.curves["momentum 0"][-1], measured.curves["momentum 0.9"][-1]
    page.says(f"After 150 steps momentum 0.9 is {plain / fast:,.0f} times lower than plain SGD.", fast < plain / 100)
    one = measured.kept["momentum 0.9"] == 1000
    page.says("It keeps one number for each weight; plain SGD keeps nothing.", one and measured.kept["momentum 0"] == 0)


SKELETON = '''"""SGD with momentum and weight decay, as torch.optim.SGD computes it (without dampening and Nesterov).

    g = gradient + weight_decay * weight
    v = g                       in the first step of a weight
    v = momentum * v + g        later; without momentum there is no v, and g is used
    weight = weight - lr * v

`v` belongs into `self.state[weight]`: then it is in every checkpoint. Read lr, momentum and weight_decay
from the param group in every step: schedulers change them there. A weight without a gradient stays as it is.

    trueloop lab sgd-with-momentum THIS_FILE.py
"""

import torch
from torch.optim import Optimizer


class SGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        raise NotImplementedError("write SGD.step")
'''


def check(attempt: Attempt) -> None:
    attempt.optimizer("SGD", torch.optim.SGD, "torch.optim.SGD", options={"lr": 0.01, "momentum": 0.9})
    decay = {"lr": 0.02, "momentum": 0.5, "weight_decay": 0.1}
    hints = {"same-trajectory": "with weight decay it differs: is the decay added to the gradient before the momentum?"}
    attempt.optimizer(
        "SGD", torch.optim.SGD, "torch.optim.SGD", options=decay, claims=("same-trajectory",), hints=hints
    )


LAB = Lab(code=(valley, descent, numbers_kept), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
