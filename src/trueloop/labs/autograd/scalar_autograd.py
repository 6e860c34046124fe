"""scalar-autograd: How does a program know its own derivative?

Every operation on a number remembers its operands and how the result changes with each of them. Backward walks that
record from the end to the beginning and adds up: the chain rule, nothing else. torch does the same with tensors.

Below is the smallest such engine, for sums and products. You will see that a value that is used twice must add its
gradients, and that the order of the walk matters. Exercise: an engine with powers, division, tanh and exp that agrees
with torch on expressions that the check makes up.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import torch

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]


class Number:
    """A number that remembers where it comes from: operands, and the derivative by each."""

    def __init__(self, data: float, operands: tuple[tuple[Number, float], ...] = ()) -> None:
        self.data, self.grad, self.operands = data, 0.0, operands

    def __add__(self, other: Number) -> Number:
        return Number(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other: Number) -> Number:
        return Number(self.data * other.data, ((self, other.data), (other, self.data)))

    def backward(self) -> None:
        order: list[Number] = []

        def visit(number: Number) -> None:
            if number not in order:
                for operand, _ in number.operands:
                    visit(operand)
                order.append(number)

        visit(self)
        self.grad = 1.0
        for number in reversed(order):  # a number is complete before it passes its gradient on
            for operand, derivative in number.operands:
                operand.grad += derivative * number.grad  # += : it may be used elsewhere too


def used_twice(x: Any, y: Any) -> Any:
    a = x * y
    return a * a + x + a


def measure() -> dict[str, float]:
    mine = [Number(3.0), Number(-2.0)]
    used_twice(*mine).backward()
    torchs = [torch.tensor(3.0, requires_grad=True), torch.tensor(-2.0, requires_grad=True)]
    used_twice(*torchs).backward()
    found: dict[str, float] = {}
    for name, own, reference in zip("xy", mine, torchs, strict=True):
        assert reference.grad is not None
        found |= {f"d{name}, Number": own.grad, f"d{name}, torch": reference.grad.item()}
    return found


def answer(page: Page, measured: dict[str, float]) -> None:
    page.table("a = x y;  a a + x + a at x = 3, y = -2", ("gradient", "value"), measured.items())
    equal = all(measured[f"d{name}, Number"] == measured[f"d{name}, torch"] for name in "xy")
    page.says("Twenty lines of bookkeeping give torch's gradients, also for a value that is used three times.", equal)


SKELETON = '''"""A scalar autograd engine: the class Value.

    x, y = Value(2.0), Value(-3.0)
    z = (x * y + x ** 3 / y).tanh()
    z.backward()
    x.grad, y.grad                       # as torch would compute them

Needed: + - * / between Values and with plain numbers on either side (2 * x, 1 - x), unary minus,
** with a plain number, tanh(), exp(), relu(), backward(), and the attributes data and grad.

Mind: a Value may be used more than once; backward() is called on the result only, and calling it for
two results must add up in grad, as in torch.

    trueloop lab scalar-autograd THIS_FILE.py
"""

import math


class Value:
    def __init__(self, data):
        raise NotImplementedError("write Value")
'''

Build = Callable[[Any, Any], Any]
EXPRESSIONS: dict[str, tuple[Build, str]] = {
    "x + y * x": (lambda x, y: x + y * x, "x is used twice: its gradients add up"),
    "2 * x - y / 3 + 1 - x": (lambda x, y: 2 * x - y / 3 + 1 - x, "plain numbers stand on either side: __radd__, ..."),
    "-(x ** 3) / y": (lambda x, y: -(x**3) / y, "the derivative of a / b by b is -a / b ** 2"),
    "(x * y).tanh() + x.exp()": (lambda x, y: (x * y).tanh() + x.exp(), "tanh' = 1 - tanh ** 2, exp' = exp"),
    "(x - y).relu() * x.relu()": (lambda x, y: (x - y).relu() * x.relu(), "relu' is 1 above 0, else 0"),
    "a = x * y; b = a + x; a * b + b * b": (
        lambda x, y: (a := x * y) * (b := a + x) + b * b,
        "pass a gradient on only when it is complete: visit the values in topological order",
    ),
}


def check(attempt: Attempt) -> None:
    value = attempt.get("Value")
    for text, (build, hint) in EXPRESSIONS.items():
        for x, y in ((1.5, -0.7), (-0.4, 2.0)):
            attempt.expect(f"{text} at {x}, {y}", *_compared(value, build, (x, y), hint))
    draws = random.Random(0)
    for number in range(10):
        hint = "a deep expression: is every value visited once, after all values that use it?"
        attempt.expect(f"made-up expression {number}", *_compared(value, _made_up(draws), (0.3, -0.8), hint))
    x = value(2.0)
    (x * 3.0).backward()
    (x * 4.0).backward()
    attempt.expect("two backwards add up", x.grad == 7.0, "grad is added to, never replaced", f"{x.grad}, not 7")


def _made_up(draws: random.Random) -> Build:
    steps = [
        (draws.choice((operator.add, operator.sub, operator.mul)), draws.random(), draws.random()) for _ in range(12)
    ]

    def build(x: Any, y: Any) -> Any:
        values = [x, y]
        for operation, one, other in steps:
            chosen = [values[int(share * len(values))] for share in (one, other)]
            values.append(operation(*chosen).tanh())
        return values[-1] + values[-2]

    return build


def _compared(value: Any, build: Build, at: tuple[float, float], hint: str) -> tuple[bool, str, str]:
    mine = [value(each) for each in at]
    torchs = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in at]
    result, wanted = build(*mine), build(*torchs)
    result.backward()
    wanted.backward()
    got = [float(result.data), *(float(each.grad) for each in mine)]
    right = [wanted.item(), *(0.0 if each.grad is None else each.grad.item() for each in torchs)]
    same = all(abs(one - other) <= 1e-9 * max(1, abs(other)) for one, other in zip(got, right, strict=True))
    shown = "" if same else f"value, dx, dy are {got}, and torch has {right}"
    return same, hint, shown


LAB = Lab(code=(Number, used_twice), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
