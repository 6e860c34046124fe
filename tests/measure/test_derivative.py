"""Custom functions by finite differences: wrong gradients are named, other backwards on purpose are left alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from trueloop.measure.derivative import CannotTry, is_plain, wrong_gradients


def make(forward: Any, backward: Any) -> Any:
    return type("Custom", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def saving(function: Any) -> Any:
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return function(*args)

    return forward


def tried(function: Any, *args: Any, trained: tuple[bool | None, ...] = (), by_one: bool = False) -> list[str]:
    asked = trained or tuple(False if isinstance(a, Tensor) and a.is_floating_point() else None for a in args)
    return [f"{e.pattern} {e.ratio:.1f}" for e in wrong_gradients(function, args, asked, by_one)]


def points(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def swish_slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)


SWISHES = {
    "right": (lambda ctx, g: g * swish_slope(*ctx.saved_tensors), []),
    "sign": (lambda ctx, g: -g * swish_slope(*ctx.saved_tensors), ["sign -1.0"]),
    "factor": (lambda ctx, g: 2 * g * swish_slope(*ctx.saved_tensors), ["factor 2.0"]),
    "no chain rule": (lambda ctx, g: swish_slope(*ctx.saved_tensors), ["ignores 1.0"]),
    "missing": (lambda ctx, g: None, ["missing 0.0"]),
    "zero": (lambda ctx, g: torch.zeros_like(g), ["zero 0.0"]),
}


@pytest.mark.parametrize("name", SWISHES)
def test_an_activation(name: str) -> None:
    backward, expected = SWISHES[name]
    assert tried(make(saving(swish), backward), points(16, 8)) == expected


def test_a_term_that_was_forgotten_is_found() -> None:
    function = make(saving(swish), lambda ctx, g: g * torch.sigmoid(*ctx.saved_tensors))
    assert [word.split()[0] for word in tried(function, points(16, 8))] == ["differs"]


def linear(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, w, _ = ctx.saved_tensors
    return g @ w, g.t() @ x, g.sum(0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda a, b, c: (a, b, c), []),
        (lambda a, b, c: (a, -b, c), ["sign -1.0"]),
        (lambda a, b, c: (a, b, c / 5), ["factor 0.2"]),
        (lambda a, b, c: (a, b, None), ["missing 0.0"]),
        (lambda a, b, c: (None, b, c), []),  # a gradient that is stopped, perhaps on purpose
    ],
)
def test_a_layer(change: Any, expected: list[str]) -> None:
    function = make(saving(lambda x, w, b: x @ w.t() + b), lambda ctx, g: change(*linear(ctx, g)))
    assert tried(function, points(5, 4), points(3, 4), points(3), trained=(False, True, True)) == expected


def test_the_separate_context_of_newer_functions() -> None:
    class Cube(Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return grad * x**2  # forgot the 3

    assert tried(Cube, points(40)) == ["factor 0.3"]


def test_a_function_that_only_accepts_float32() -> None:
    def only(x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            raise TypeError
        return swish(x)

    right = make(saving(only), lambda ctx, g: g * swish_slope(*ctx.saved_tensors))
    wrong = make(saving(only), lambda ctx, g: -g * swish_slope(*ctx.saved_tensors))
    assert tried(right, points(16, 8)) == []
    assert tried(wrong, points(16, 8)) == ["sign -1.0"]


def test_a_loss_that_ignores_the_gradient_is_right_where_the_backward_starts_there() -> None:
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(2 * (x - y) / x.numel())
        return (x - y).pow(2).mean()

    loss = make(forward, lambda ctx, g: (ctx.saved_tensors[0], None))
    x, y = points(6, 2), torch.zeros(6, 2)
    assert tried(loss, x, y, trained=(False, None), by_one=True) == []
    assert tried(loss, x, y, trained=(False, None), by_one=False) == ["ignores 1.0"]


def top(g: Tensor) -> Tensor:
    keep = g.abs() >= g.abs().flatten().kthvalue(g.numel() // 2).values
    return g * keep


HEALTHY: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "relu with zeros": (
        lambda x: x.clamp(min=0),
        lambda c, g: g * (c.saved_tensors[0] > 0),
        (points(20, 5).relu() - 0.5 * (points(20, 5) < -1),),
    ),
    "leaky gradient": (lambda x: x.clamp(min=0), lambda c, g: g * torch.where(c.saved_tensors[0] > 0, 1, 0.1), ()),
    "straight-through clamp": (lambda x: x.clamp(-1, 1), lambda c, g: g, ()),
    "truncated exponential": (torch.exp, lambda c, g: g * torch.exp(c.saved_tensors[0].clamp(-1.5, 1.5)), ()),
    "norm of rows": (lambda x: x / x.norm(dim=1, keepdim=True), lambda c, g: norm_gradient(c, g), ()),
    "mean loss": (lambda x: x.pow(2).mean(), lambda c, g: g * 2 * c.saved_tensors[0] / c.saved_tensors[0].numel(), ()),
}


def norm_gradient(ctx: Any, g: Tensor) -> Any:
    (x,) = ctx.saved_tensors
    size = x.norm(dim=1, keepdim=True)
    return g / size - x * (g * x).sum(1, keepdim=True) / size**3


@pytest.mark.parametrize("name", HEALTHY)
def test_right_functions(name: str) -> None:
    forward, backward, args = HEALTHY[name]
    assert tried(make(saving(forward), backward), *(args or (points(20, 5),))) == []


ON_PURPOSE: dict[str, tuple[Any, Any, tuple[Any, ...], str]] = {
    "round": (torch.round, lambda c, g: g, (), "constant in steps"),
    "sign": (torch.sign, lambda c, g: g * (c.saved_tensors[0].abs() < 1), (), "constant in steps"),
    "spike": (lambda x: (x > 0).to(x), lambda c, g: g / (1 + c.saved_tensors[0].abs()) ** 2, (), "constant in steps"),
    "many levels": (lambda x: (x / 0.1).round() * 0.1, lambda c, g: g, (points(200, 50),), "constant in steps"),
    "binary weights": (
        lambda x, w: x @ w.sign(), lambda c, g: (g @ c.saved_tensors[1].sign().t(), c.saved_tensors[0].t() @ g),
        (points(6, 5), points(5, 4)), "constant in steps"),
    "learned step size": (
        lambda x, s: (x / s).round() * s,
        lambda c, g: (g, (g * (c.saved_tensors[0].round() - c.saved_tensors[0])).sum()),
        (points(20, 5), torch.tensor(0.3)), "constant in steps"),
    "reversal": (lambda x: x.view_as(x), lambda c, g: -0.5 * g, (), "identity"),
    "scaling": (lambda x: x * 1.0, lambda c, g: 0.1 * g, (), "identity"),
    "clipping": (torch.clone, lambda c, g: g.clamp(-0.1, 0.1), (), "identity"),
    "auxiliary loss": (
        lambda x, a: x.clone(), lambda c, g: (g, torch.ones_like(c.saved_tensors[1])),
        (points(4, 4), torch.tensor(0.5)), "identity"),
    "dropout": (
        lambda x: x * (torch.rand_like(x) > 0.5), lambda c, g: g, (), "different values for the same input"),
    "guided": (lambda x: x.clamp(min=0), lambda c, g: g.clamp(min=0) * (c.saved_tensors[0] > 0), (), "not linear"),
    "top half": (lambda x: x.pow(3), lambda c, g: top(g) * 3 * c.saved_tensors[0] ** 2, (), "not linear"),
    "feedback alignment": (
        lambda x, w, b: x @ w, lambda c, g: (g @ c.saved_tensors[2].t(), c.saved_tensors[0].t() @ g, None),
        (points(6, 5), points(5, 4), points(5, 4) + 1), "ignores an input"),
    "in place": (lambda x: x.mul_(2), lambda c, g: 2 * g, (), "input"),
    "not finite": (lambda x: x.log(), lambda c, g: g / c.saved_tensors[0], (), "not finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_PURPOSE)
def test_other_backwards_on_purpose(name: str) -> None:
    forward, backward, args, why = ON_PURPOSE[name]
    given = args or (points(20, 5),)
    trained = tuple(None if name.startswith("feedback") and i == 2 else False for i in range(len(given)))
    with pytest.raises(CannotTry, match=why):
        tried(make(saving(forward), backward), *given, trained=trained)


def test_centers_that_follow_a_rule_of_their_own_are_left_alone() -> None:
    def backward(ctx: Any, g: Tensor) -> Any:
        x, labels, centers = ctx.saved_tensors
        difference = x - centers[labels]
        counts = torch.bincount(labels, minlength=3).to(x) + 1
        moved = torch.zeros_like(centers).index_add_(0, labels, -difference) / counts[:, None]
        return g * difference, None, g * moved

    loss = make(saving(lambda x, labels, centers: (x - centers[labels]).pow(2).sum() / 2), backward)
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    assert tried(loss, points(7, 4), labels, points(3, 4), trained=(False, None, True)) == []


def test_what_a_function_can_be_called_with_again() -> None:
    assert all(map(is_plain, (torch.ones(2), (1, 2), None, "sum")))
    refused = (torch.nn.Linear(1, 1), [torch.ones(1)], len, torch.ones(2, dtype=torch.complex64))
    assert not any(map(is_plain, refused))
