"""What a model computes of one batch: its loss, answers, gradients and each layer's output, and how far two of those
lie apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, tensors_in
from trueloop.engine.task import Task
from trueloop.measure.randomness import fence
from trueloop.torch_private.modules import DropoutNd

__all__ = ["ROUNDING", "SMALL", "Apart", "Numbers", "compared", "distance", "first_apart", "numbers_of", "quieted"]

ROUNDING: Final = 1e-4
"""Of the largest value of a tensor: sums of float32 in another order differ by about 1e-6 of it in one layer, and more
after several."""
GRADIENT_ROUNDING: Final = 1e-3
"""Of a gradient, in which the differences of the whole forward come together once more."""
SMALL: Final = 1e-3
"""Of the largest gradient of a model: a parameter whose own is below that is held against it, not against its own
noise."""


@dataclass(frozen=True)
class Numbers:
    """In float32 or wider, on the host."""

    loss: float
    answers: tuple[Tensor, ...]
    gradients: Mapping[str, Tensor]
    """By parameter; those that have none are left out."""
    layers: Mapping[str, Tensor]
    """What each part of the model gave, at its first call, in the order in which they ended."""


@dataclass(frozen=True)
class Apart:
    """Two of them, held against each other."""

    loss: float
    answers: float
    gradients: float
    worst: str
    """The parameter whose gradients lie furthest apart."""
    one: float
    two: float
    """The losses."""

    @property
    def alike(self) -> bool:
        return self.loss <= ROUNDING and self.answers <= ROUNDING and self.gradients <= GRADIENT_ROUNDING

    def sentence(self, first: str, second: str) -> str:
        """Which of them differ: 'the loss is 2.31 eager and 2.35 compiled'."""
        if self.loss > ROUNDING or not math.isfinite(self.loss):
            return f"the loss is {self.one:.6g} {first} and {self.two:.6g} {second}"
        if self.answers > ROUNDING:
            return f"the loss is the same, but the answers lie {self.answers:.2g} of their scale apart {first} and {second}"
        return f"loss and answers are the same, but the gradient of {self.worst} lies {self.gradients:.2g} of its scale apart"

    def facts(self) -> dict[str, object]:
        return {
            "losses": [self.one, self.two],
            "loss_apart": self.loss,
            "answers_apart": self.answers,
            "gradients_apart": self.gradients,
            "worst_gradient": self.worst,
        }


def quieted(model: nn.Module, task: Task, batch: Batch) -> str:
    """Put it into training mode without what draws: dropout. A model that still does is put into eval mode. Says
    which."""
    model.train()
    for module in model.modules():
        if isinstance(module, DropoutNd):
            module.eval()
    first, second = (numbers_of(model, task, batch, seed=seed).loss for seed in (0, 1))
    if first == second or (math.isnan(first) and math.isnan(second)):
        return "training mode, dropout off"
    model.eval()
    return "eval mode"


def numbers_of(
    model: nn.Module,
    task: Task,
    batch: Batch,
    *,
    call: Callable[[Any], Any] | None = None,
    around: AbstractContextManager[Any] | None = None,
    scale: float = 1.0,
    layers: bool = False,
    seed: int = 0,
) -> Numbers:
    """`call`: what is called instead of the model (compiled); `scale`: what the loss is multiplied by in the backward,
    and taken out after.

    The model is left as it was: no gradients, its buffers as before.
    """
    outputs: dict[str, Tensor] = {}
    model.zero_grad(set_to_none=True)
    with fence(seed), _unmoved(model), _noting(model if layers else nn.Module(), outputs):
        with around or nullcontext():
            answer = (model if call is None else call)(batch.inputs)
            loss = task.loss_sum(answer, batch.targets) / task.count(batch.targets)
        (loss * scale).backward()  # type: ignore[no-untyped-call]
    gradients = {name: _home(each.grad) / scale for name, each in model.named_parameters() if each.grad is not None}
    model.zero_grad(set_to_none=True)
    return Numbers(float(loss.detach()), tuple(_home(each) for each in tensors_in(answer)), gradients, outputs)


@contextmanager
def _unmoved(model: nn.Module) -> Iterator[None]:
    """A forward in training mode moves running statistics: they are put back."""
    before = [buffer.detach().clone() for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(model.buffers(), before, strict=True):
                buffer.copy_(value)


@contextmanager
def _noting(model: nn.Module, outputs: dict[str, Tensor]) -> Iterator[None]:
    def hook(name: str) -> Callable[..., None]:
        def note(module: nn.Module, args: Any, output: Any) -> None:
            if name not in outputs and (first := next(tensors_in(output), None)) is not None:
                outputs[name] = _home(first)

        return note

    handles = [module.register_forward_hook(hook(name)) for name, module in model.named_modules() if name]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _home(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().to("cpu")
    return (
        tensor.clone()
        if tensor.dtype in (torch.float64, torch.float32) or not tensor.is_floating_point()
        else tensor.float()
    )


# -- far apart? --


def distance(one: Tensor, two: Tensor, scale: float | None = None) -> float:
    """The largest difference of two tensors, as a share of their largest value (or of this scale); infinite where only
    one is a number."""
    if one.shape != two.shape:
        return math.inf
    if not one.numel() or torch.equal(one, two):
        return 0.0
    one, two = one.double(), two.double()
    if not torch.equal(one.isfinite(), two.isfinite()):
        return math.inf
    finite = one.isfinite()
    largest = float((one - two)[finite].abs().max()) if finite.any() else 0.0
    most = float(one[finite].abs().max()) if finite.any() else 0.0
    return largest / max(scale or 0.0, most) if largest else 0.0


def compared(one: Numbers, two: Numbers) -> Apart:
    most = max((float(each.abs().max()) for each in one.gradients.values() if each.numel()), default=0.0)
    missing = [name for name in {*one.gradients, *two.gradients} if (name in one.gradients) != (name in two.gradients)]
    gradients = {
        name: distance(each, two.gradients[name], SMALL * most)
        for name, each in one.gradients.items()
        if name in two.gradients
    }
    gradients |= dict.fromkeys(missing, math.inf)
    worst = max(gradients, key=lambda name: gradients[name], default="")
    same = len(one.answers) == len(two.answers)
    answers = (
        max((distance(a, b) for a, b in zip(one.answers, two.answers, strict=False)), default=0.0) if same else math.inf
    )
    loss = distance(torch.tensor(one.loss, dtype=torch.float64), torch.tensor(two.loss, dtype=torch.float64))
    return Apart(loss, answers, gradients.get(worst, 0.0), worst, one.loss, two.loss)


def first_apart(
    one: Mapping[str, Tensor], two: Mapping[str, Tensor], limit: float, far: Callable[..., float] = distance
) -> str | None:
    """The first layer, in the order in which they ended, whose outputs lie apart: where it begins."""
    return next((name for name, value in one.items() if name in two and not far(value, two[name]) <= limit), None)
