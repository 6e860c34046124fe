"""gradient-norm-gradient: How do you train on the size of a gradient?

A gradient penalty (WGAN-GP, sharpness, meta-learning) has a gradient in its loss, so its backward goes through a
backward. `create_graph=True` records the first backward as a graph of its own. Without it, the penalty is a constant.

You will compare the gradient of |f'(x)|^2 with the formula on paper, see what a Function with a backward that detaches
does to it, and what it costs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from trueloop.labs.interleaved import interleaved
from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


def penalty(function: Callable[[Tensor], Tensor], x: Tensor, create_graph: bool = True) -> Tensor:
    """The squared norm of the gradient of `function` at x."""
    (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=create_graph)
    return gradient.square().sum()


def cube(x: Tensor) -> Tensor:
    return x**3  # f' = 3 x^2, |f'|^2 = 9 x^4, and its derivative is 36 x^3


class CubeDetached(Function):
    """A right backward that cannot be differentiated: it leaves the graph silently."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * 3 * x.detach() ** 2


def critic_step(critic: nn.Module, x: Tensor, weight: float) -> None:
    """A step of a critic with a gradient penalty."""
    loss = critic(x).mean()
    if weight:
        loss = loss + weight * penalty(critic, x)
    loss.backward()


@dataclass(frozen=True)
class Measured:
    off: float  # from 36 x^3
    constant: bool  # without create_graph
    detached: float  # largest gradient of the penalty through CubeDetached
    gradcheck: bool  # of CubeDetached
    gradgradcheck: bool
    plain_seconds: float
    penalty_seconds: float


def measure() -> Measured:
    torch.set_num_threads(1)  # for CPU time without threads that wait; it is restored behind the lab
    x = torch.linspace(-2, 2, 9, dtype=torch.float64, requires_grad=True)
    (by_x,) = torch.autograd.grad(penalty(cube, x), x)
    lost = penalty(CubeDetached.apply, x)
    through = torch.autograd.grad(lost, x, allow_unused=True)[0] if lost.requires_grad else None
    critic = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
    inputs = torch.randn(256, 64, requires_grad=True)
    steps = {
        "plain": lambda: critic_step(critic, inputs, 0.0),
        "penalty": lambda: critic_step(critic, inputs, 10.0),
    }
    times = interleaved(steps, 15, time.process_time)
    return Measured(
        (by_x - 36 * x**3).abs().max().item(),
        not penalty(cube, x, create_graph=False).requires_grad,
        0.0 if through is None else through.abs().max().item(),
        torch.autograd.gradcheck(CubeDetached.apply, x, raise_exception=False),
        torch.autograd.gradgradcheck(CubeDetached.apply, x, raise_exception=False),
        times["plain"],
        times["penalty"],
    )


def answer(page: Page, measured: Measured) -> None:
    rows = [
        ("gradient of |f'|^2, largest difference from 36 x^3", measured.off),
        ("the same through CubeDetached, largest value (288 on paper)", measured.detached),
        ("gradcheck of CubeDetached passes", measured.gradcheck),
        ("gradgradcheck of CubeDetached passes", measured.gradgradcheck),
        ("CPU ms of a critic's step", measured.plain_seconds * 1e3),
        ("CPU ms with the penalty", measured.penalty_seconds * 1e3),
    ]
    page.table("Measured", ("quantity", "value"), rows)
    page.says("With `create_graph=True` the gradient of the penalty is the one on paper.", measured.off < 1e-9)
    page.says("Without it the penalty is a constant: it requires no gradient.", measured.constant)
    zero = "A backward that detaches passes `gradcheck`, and makes the gradient of the penalty 0."
    page.says(zero, measured.detached == 0.0 and measured.gradcheck)
    page.says("`gradgradcheck` finds it.", not measured.gradgradcheck)
    ratio = measured.penalty_seconds / measured.plain_seconds
    page.says(f"A step with a penalty costs several times a plain one: here {ratio:.1f} times.", ratio > 1.5)


LAB = Lab(code=(penalty, CubeDetached, critic_step), measure=measure, answer=answer)
