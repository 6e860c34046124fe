"""relu-and-sigmoid: What must a Function keep for its backward, and what does that cost?

An `autograd.Function` decides by itself what it saves. ReLU can save its input or its output, sigmoid only needs
its output: g * y * (1 - y). What is saved stays in memory until the backward has run, for every layer.

Exercise: write both, and have them checked as `trueloop probe` checks operations: values, layouts, gradients
against torch, and whether the backward writes where it must not.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]


class Square(Function):
    """An example: x * x, which needs x again. The derivative is 2 x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * 2 * x


def saved_bytes(function: Any, x: Tensor) -> int:
    """What a forward keeps for its backward, each storage once, without the input itself."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() != x.untyped_storage().data_ptr():
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = function(x)
    assert result.requires_grad
    return sum(kept.values())


def measure() -> dict[str, float]:
    x = torch.linspace(-3, 3, 1024).requires_grad_()
    composed = saved_bytes(lambda x: 1 / (1 + torch.exp(-x)), x)
    x.grad = None
    Square.apply(x).sum().backward()
    assert x.grad is not None
    return {
        "input": x.nbytes,
        "Square": saved_bytes(Square.apply, x),
        "torch.relu": saved_bytes(torch.relu, x),
        "torch.relu(x) ** 2": saved_bytes(lambda x: torch.relu(x) ** 2, x),
        "torch.sigmoid": saved_bytes(torch.sigmoid, x),
        "1 / (1 + exp(-x))": composed,
        "error of Square's gradient": (x.grad - 2 * x).abs().max().item(),
    }


def answer(page: Page, measured: dict[str, float]) -> None:
    one = measured["input"]
    names = ("Square", "torch.relu", "torch.relu(x) ** 2", "torch.sigmoid", "1 / (1 + exp(-x))")
    rows = [(name, int(measured[name]), measured[name] / one) for name in names]
    page.table("Kept for the backward, besides the input", ("function", "bytes", "times the input"), rows)
    page.says("The example's backward is right.", measured["error of Square's gradient"] < 1e-5)
    page.says("A Function that saves its input keeps nothing new.", measured["Square"] == 0)
    outputs = measured["torch.sigmoid"] == measured["torch.relu"] == one
    page.says("torch's ReLU and sigmoid keep one tensor each: their output.", outputs)
    once = measured["torch.relu(x) ** 2"] == one
    page.says("If the next operation saves the same tensor, it is kept once: ReLU's output is free then.", once)
    page.says("Sigmoid from single operations keeps more than the fused one.", measured["1 / (1 + exp(-x))"] > one)


SKELETON = '''"""Write ReLU and sigmoid as autograd Functions, without torch.relu, torch.sigmoid or autograd inside.

    ReLU:     y = x where x > 0, else 0;      dx = g where x > 0, else 0
    sigmoid:  y = 1 / (1 + exp(-x));          dx = g * y * (1 - y)

`g` is the gradient of the result, `dx` that of x. Mind: NaN stays NaN, an input of -100 must not
overflow, float16 stays float16, and `g` and `x` belong to others: do not write into them.

    trueloop lab relu-and-sigmoid THIS_FILE.py
"""

import torch
from torch.autograd import Function


class ReLU(Function):
    @staticmethod
    def forward(ctx, x):
        raise NotImplementedError("write ReLU.forward")

    @staticmethod
    def backward(ctx, g):
        raise NotImplementedError("write ReLU.backward")


class Sigmoid(Function):
    @staticmethod
    def forward(ctx, x):
        raise NotImplementedError("write Sigmoid.forward")

    @staticmethod
    def backward(ctx, g):
        raise NotImplementedError("write Sigmoid.backward")
'''

CLAIMS = (
    "forward-equals-reference", "result-independent-of-layout", "empty-and-single-inputs",
    "edge-values-equal-reference", "gradient-equals-reference", "gradient-equals-differences", "inputs-untouched",
    "incoming-gradient-untouched",
)  # fmt: skip


def check(attempt: Attempt) -> None:
    edge = "what becomes of NaN, inf, -inf and -100? Which way round is the comparison, and what does exp(100) give?"
    slope = "compare with the derivative in the task. Which tensor did forward save: x or y?"
    hints = {"edge-values-equal-reference": edge, "gradient-equals-reference": slope}
    attempt.operation("ReLU", torch.relu, "torch.relu", claims=CLAIMS, hints=hints)
    attempt.operation("Sigmoid", torch.sigmoid, "torch.sigmoid", claims=CLAIMS, hints=hints)


LAB = Lab(code=(Square, saved_bytes), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
