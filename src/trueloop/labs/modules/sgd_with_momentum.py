<<<<<<< HEAD
"""sgd-with-momentum: What does momentum do, and what does an optimizer have to remember for it?

In a narrow valley plain SGD must take steps that are small enough for the steep direction, and then it crawls along the
flat one. Momentum adds up the gradients of earlier steps: what points back and forth cancels, what points one way
grows. It costs one number for each weight, and that number belongs into every checkpoint.

Exercise: SGD with momentum and weight decay, checked by the claims of `trueloop probe` against torch.optim.SGD.
=======
"""sgd-with-momentum: What does momentum do to a step, and why is a narrow valley crossed faster with it?

The velocity v = momentum * v + gradient sums the past gradients. Where they agree, it grows up to
gradient / (1 - momentum); where they alternate in sign, they cancel each other.

Exercise: write it as a `torch.optim.Optimizer`, checked by the claims of `trueloop probe` against `torch.optim.SGD`.
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
"""

from __future__ import annotations

<<<<<<< HEAD
from dataclasses import dataclass

import torch
from torch import Tensor, nn
=======
import itertools

import torch
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page
from trueloop.results.document import Axis, Plot, Series

__all__ = ["LAB"]

<<<<<<< HEAD

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
=======
STEPS = 200


def valley(momentum: float) -> list[float]:
    """Distances from the minimum of 0.5 * (100 x² + y²): steep across, flat along."""
    point = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([point], lr=0.015, momentum=momentum)
    distances = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        (0.5 * (torch.tensor([100.0, 1.0]) * point**2).sum()).backward()
        optimizer.step()
        distances.append(point.detach().norm().item())
    return distances


def steps_by_a_constant_gradient(momentum: float) -> list[float]:
    """How far the weight moves in each step, in units of lr * gradient."""
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=momentum)
    places = [0.0]
    for _ in range(STEPS):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        places.append(weight.item())
    return [before - after for before, after in itertools.pairwise(places)]


def measure() -> dict[str, list[float]]:
    return {
        "momentum 0": valley(0.0),
        "momentum 0.9": valley(0.9),
        "constant gradient": steps_by_a_constant_gradient(0.9),
    }


def answer(page: Page, measured: dict[str, list[float]]) -> None:
    plain, heavy, moves = (measured[name] for name in ("momentum 0", "momentum 0.9", "constant gradient"))
    lines = tuple(
        Series(name, tuple(enumerate(measured[name], 1)), number)
        for number, name in enumerate(("momentum 0", "momentum 0.9"))
    )
    page.show(Plot("Distance from the minimum", lines, Axis("step"), Axis("distance", "log")))
    chosen = (1, 2, 10, 50, 200)
    rows = [(step, plain[step - 1], heavy[step - 1], moves[step - 1]) for step in chosen]
    page.table("By step", ("step", "momentum 0", "momentum 0.9", "size, constant gradient"), rows)
    page.says("The first step is the same: the velocity begins as the gradient.", plain[0] == heavy[0])
    large = abs(moves[-1] - 10) < 1e-3
    page.says("With a gradient that stays, a step grows to 1 / (1 - 0.9) = 10 times its size: tune lr with it.", large)
    ratio = plain[-1] / heavy[-1]
    page.says(f"After {STEPS} steps in the valley, momentum is {ratio:,.0f} times as close.", ratio > 10)
    again = any(after > before for before, after in itertools.pairwise(heavy))
    page.says("The price: it overshoots, so the distance does not fall in every step.", again)


SKELETON = '''"""Write SGD with momentum and weight decay as an optimizer, without torch.optim.SGD.

    d = gradient + weight_decay * weight
    v = d                     in the first step
    v = momentum * v + d      later
    weight = weight - lr * v

Options are read from the group in each step (a scheduler changes group["lr"]); v is kept in self.state[p], so that
it is saved with the optimizer. A parameter without a gradient stays as it is. Write the weights in place, under
torch.no_grad(), and do not write the gradient. `step(closure)` returns the closure's loss.
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

    trueloop lab sgd-with-momentum THIS_FILE.py
"""

import torch
from torch.optim import Optimizer


<<<<<<< HEAD
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
=======
class MySGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def step(self, closure=None):
        raise NotImplementedError("write MySGD.step")
'''

CLAIMS = (
    "same-trajectory", "state-survives-checkpoint", "param-groups-apart", "parameters-without-gradient-stay",
    "learning-rate-is-read-each-step", "closure-is-used", "optimizers-are-independent", "step-writes-weights-only",
)  # fmt: skip


def check(attempt: Attempt) -> None:
    options = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.01}
    hints = {
        "state-survives-checkpoint": "where is v kept? Only what is in self.state[p] is saved and loaded",
        "step-writes-weights-only": "the gradient belongs to the caller: which line adds to it in place?",
    }
    attempt.optimizer(
        "MySGD", torch.optim.SGD, "torch.optim.SGD", options=options, reference_options=options, claims=CLAIMS,
        hints=hints,
    )  # fmt: skip


LAB = Lab(
    code=(valley, steps_by_a_constant_gradient),
    measure=measure,
    answer=answer,
    exercise=Exercise(SKELETON, check),
)
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
