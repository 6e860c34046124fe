"""accumulation: Are the gradients of 4 small batches those of one large batch?

`backward` adds to `.grad`. So a batch that does not fit is split: one backward for each micro-batch, one step for
all. It is equal to the large batch only if the loss is divided as the mean would be, and if no layer looks at the
batch.

You will compare gradients in float64, where rounding does not hide anything: four ways to do it, two of them wrong.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]

MICRO = 4


def gradient(model: nn.Module, backward: Callable[[nn.Module], Any]) -> Tensor:
    """What `backward` leaves in the gradients, as one vector."""
    model.zero_grad()
    backward(model)
    return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])


def large(model: nn.Module, x: Tensor, y: Tensor) -> None:
    F.cross_entropy(model(x), y).backward()


def accumulated(model: nn.Module, x: Tensor, y: Tensor, divide: int) -> None:
    for inputs, labels in zip(x.chunk(MICRO), y.chunk(MICRO), strict=True):
        (F.cross_entropy(model(inputs), labels) / divide).backward()


def unequal(model: nn.Module, x: Tensor, y: Tensor, by_count: bool) -> None:
    """Micro-batches of different sizes, as with padded tokens: 1, 2, 5 and 24 of 32."""
    for inputs, labels in zip(x.split([1, 2, 5, 24]), y.split([1, 2, 5, 24]), strict=True):
        loss = F.cross_entropy(model(inputs), labels, reduction="sum" if by_count else "mean")
        (loss / (len(x) if by_count else MICRO)).backward()


def measure() -> dict[str, float]:
    torch.set_num_threads(1)
    x, y = torch.randn(32, 8, dtype=torch.float64), torch.randint(0, 3, (32,))
    plain = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    norm = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3)).double()
    layer_norm = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3)).double()

    def error(model: nn.Module, backward: Callable[..., Any], *options: Any) -> float:
        whole = gradient(model, lambda m: large(m, x, y))
        parts = gradient(model, lambda m: backward(m, x, y, *options))
        return ((parts - whole).norm() / whole.norm()).item()

    return {
        "each loss divided by 4": error(plain, accumulated, MICRO),
        "not divided": error(plain, accumulated, 1),
        "unequal sizes, mean of means": error(plain, unequal, False),
        "unequal sizes, sum divided by all samples": error(plain, unequal, True),
        "LayerNorm, divided by 4": error(layer_norm, accumulated, MICRO),
        "BatchNorm, divided by 4": error(norm, accumulated, MICRO),
    }


def answer(page: Page, measured: dict[str, float]) -> None:
    rows = [(name, "equal" if error < 1e-9 else "different", error) for name, error in measured.items()]
    page.table("Gradients of 4 micro-batches beside one batch of 32", ("way", "result", "relative error"), rows)
    equal = measured["each loss divided by 4"] < 1e-9
    page.says("Divided by the number of micro-batches, they are equal to rounding.", equal)
    page.says("Not divided, they are 4 times as large.", abs(measured["not divided"] - 3) < 1e-9)
    wrong = measured["unequal sizes, mean of means"] > 0.05
    page.says("With unequal sizes a mean of means is wrong: small micro-batches count too much.", wrong)
    right = measured["unequal sizes, sum divided by all samples"] < 1e-9
    page.says("Sum the losses, and divide by the samples (tokens) of the large batch: right for all sizes.", right)
    page.says("BatchNorm sees micro-batches: it is never equal.", measured["BatchNorm, divided by 4"] > 1e-3)
    page.says("LayerNorm looks at one sample: it is.", measured["LayerNorm, divided by 4"] < 1e-9)


LAB = Lab(code=(gradient, large, accumulated, unequal), measure=measure, answer=answer)
