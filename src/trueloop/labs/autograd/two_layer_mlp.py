"""two-layer-mlp: What does backward compute in a network of two layers?

A network is two matrix products and a nonlinearity; its backward is twice as many products, with transposes in the
right places. Whoever has written it once knows where every gradient comes from, why the bias gradient is a sum over
the batch, and why softmax and cross entropy together have such a simple one: probability minus target.

Here one linear layer is worked out and compared with autograd. Exercise: the network.
"""

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page

__all__ = ["LAB"]


def linear_backward(x: Tensor, weight: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of y = x @ weight.T + bias, with g the gradient of y: [batch, out]."""
    return g @ weight, g.T @ x, g.sum(0)  # x: [batch, in], weight: [out, in], bias: [out]


def cross_entropy_backward(logits: Tensor, target: Tensor) -> Tensor:
    """Of the mean over the batch: softmax minus one-hot, divided by the batch."""
    return (logits.softmax(1) - F.one_hot(target, logits.shape[1])) / len(target)


def largest_difference(ours: Tensor, theirs: Tensor | None) -> float:
    assert theirs is not None
    return (ours - theirs).abs().max().item()


def measure() -> dict[str, float]:
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (3,)))
    target = torch.tensor([0, 2, 1, 1, 0])
    logits = F.linear(x, weight, bias)
    F.cross_entropy(logits, target).backward()
    with torch.no_grad():
        by_x, by_weight, by_bias = linear_backward(x, weight, cross_entropy_backward(logits, target))
    return {
        "x": largest_difference(by_x, x.grad),
        "weight": largest_difference(by_weight, weight.grad),
        "bias": largest_difference(by_bias, bias.grad),
    }


def answer(page: Page, measured: dict[str, float]) -> None:
    page.table("Largest difference from autograd, in float64", ("gradient of", "difference"), measured.items())
    page.says("Two formulas are the whole backward of a linear classifier.", max(measured.values()) < 1e-12)


SKELETON = '''"""The forward and the backward of a network of two layers, without autograd.

    h      = tanh(x @ w1 + b1)        x: [batch, 6], w1: [6, 8], b1: [8]
    logits = h @ w2 + b2              w2: [8, 3], b2: [3]
    loss   = mean over the batch of cross entropy (softmax inside), target: [batch] of class numbers

`forward` returns the loss and whatever `backward` needs. `backward` returns the gradients of w1, b1,
w2, b2, in this order, as a tuple. Both run under torch.no_grad(). Logits may be as large as 1000.

    trueloop lab two-layer-mlp THIS_FILE.py
"""

import torch


def forward(x, target, w1, b1, w2, b2):
    raise NotImplementedError("write forward")


def backward(x, target, w1, b1, w2, b2, saved):
    raise NotImplementedError("write backward")
'''
HINTS = {
    "w1": "through tanh first: multiply by 1 - h ** 2, then transpose x",
    "b1": "a bias is added to every sample: sum over the batch, after tanh's derivative",
    "w2": "the transpose of h times the gradient of the logits",
    "b2": "a bias is added to every sample: its gradient is a sum over the batch",
}


def check(attempt: Attempt) -> None:
    forward, backward = attempt.get("forward"), attempt.get("backward")
    for batch, scale in ((5, 1.0), (1, 1.0), (4, 300.0)):
        draws = torch.Generator().manual_seed(batch)
        shapes = {"w1": (6, 8), "b1": (8,), "w2": (8, 3), "b2": (3,)}
        weights = {name: torch.randn(shape, generator=draws, dtype=torch.float64) for name, shape in shapes.items()}
        weights["w2"] *= scale
        x = torch.randn(batch, 6, generator=draws, dtype=torch.float64)
        target = torch.randint(3, (batch,), generator=draws)
        leaves = [weight.clone().requires_grad_() for weight in weights.values()]
        w1, b1, w2, b2 = leaves
        wanted = F.cross_entropy(torch.tanh(x @ w1 + b1) @ w2 + b2, target)
        wanted.backward()
        with torch.no_grad():
            loss, saved = forward(x, target, *weights.values())
            gradients = backward(x, target, *weights.values(), saved)
        near = abs(float(loss) - wanted.item()) < 1e-9 * max(1.0, wanted.item())
        large = "exp of a large number is inf: subtract the largest logit of each row first"
        hint = large if scale > 1 else "the mean over the batch of -log(softmax) at the target class"
        attempt.expect(f"loss of {batch} samples, logits times {scale:g}", near, hint, f"{float(loss):.6g}")
        for (name, hint), gradient, leaf in zip(HINTS.items(), gradients, leaves, strict=True):
            fits = tuple(gradient.shape) == tuple(leaf.shape)
            what, shown = f"gradient of {name}, {batch} samples", f"shape {tuple(gradient.shape)}"
            attempt.require(what, fits, f"it has the shape of {name}: {tuple(leaf.shape)}", shown)
            off = largest_difference(gradient, leaf.grad)
            mean = "off by the batch size? The loss is a mean" if batch > 1 and _factor(gradient, leaf, batch) else hint
            attempt.expect(what, off < 1e-8 * max(1.0, scale), mean, f"largest difference {off:.2g}")


def _factor(gradient: Tensor, leaf: Tensor, batch: int) -> bool:
    return leaf.grad is not None and torch.allclose(gradient, leaf.grad * batch)


LAB = Lab(
    code=(linear_backward, cross_entropy_backward), measure=measure, answer=answer, exercise=Exercise(SKELETON, check)
)
