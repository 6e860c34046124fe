"""The parts of a training step, for claims that look between them: `engine/train.py` without guard, log and saves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trueloop.data.source import Batch, map_tensors, size_of
from trueloop.engine.batches import Window
from trueloop.engine.call_model import call_model
from trueloop.engine.nonfinite_guard import clear_gradients
from trueloop.engine.parts import Parts
from trueloop.engine.schedule import set_rate
from trueloop.event.operation_names import DROPOUTS
from trueloop.parallel.gradient import clip, norm_of

__all__ = ["NoDropout", "apply_update", "backward", "batch_at", "first_samples", "micro_batches_at", "select_samples"]
__all__ += ["without_dropout"]

DROPOUT_FUNCTIONS: Final = frozenset({*DROPOUTS, "feature_dropout"})


def batch_at(parts: Parts, step: int) -> Batch:
    """The complete batch that a run trains on at this step, prepared and augmented."""
    return parts.batches.again(*divmod(step, parts.batches.steps_per_epoch))


def micro_batches_at(parts: Parts, step: int) -> Sequence[Batch]:
    """The same batch in the recipe's micro-batches."""
    return parts.batches.micros(batch_at(parts, step))


def backward(parts: Parts, micros: Sequence[Batch]) -> Tensor:
    """Compute the unscaled gradients of one step and return its loss. A loss without a graph leaves no gradients."""
    targets = parts.count_targets(Window(micros, 0, ends_epoch=False))
    clear_gradients([*parts.model.parameters(), *parts.parameters])
    losses = []
    for micro in micros:
        with parts.precision.autocast():
            found = parts.task.loss(call_model(parts.forward, micro.inputs, parts.model), micro)
            loss = found.total / targets
        if loss.requires_grad:
            parts.precision.scaled(loss).backward()  # type: ignore[no-untyped-call]
        parts.terms.add(found)
        losses.append(loss.detach())
    total = parts.terms.settle(torch.stack(losses).sum(), targets, list(parts.model.parameters()))
    parts.precision.unscale(parts.optimizer)
    return total


def apply_update(parts: Parts, rate: float) -> None:
    """Clip as in the recipe and step; a scaler skips the step on overflow."""
    if parts.recipe.clip is not None:
        clip(parts.parameters, norm_of(parts.parameters), parts.recipe.clip)
    set_rate(parts.optimizer, rate)
    parts.precision.step(parts.optimizer)
    parts.precision.learn()


def select_samples(value: Any, rows: Sequence[int], of: int) -> Any:
    """These rows of every tensor with `of` rows; everything else unchanged."""
    return map_tensors(value, lambda each: each[list(rows)] if each.dim() and each.shape[0] == of else each)


def first_samples(batch: Batch, samples: int) -> Batch:
    size = size_of(batch.inputs)
    return Batch(*select_samples(tuple(batch), range(min(samples, size)), size))


# -- without dropout --


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Dropout is off inside, in any mode, for layers and for functions."""
    inside = [module for module in model.modules() if isinstance(module, (nn.MultiheadAttention, nn.RNNBase))]
    probabilities = [module.dropout for module in inside]
    for module in inside:
        module.dropout = 0.0  # they drop inside one torch function
    try:
        with NoDropout():
            yield
    finally:
        for module, probability in zip(inside, probabilities, strict=True):
            module.dropout = probability


@final
class NoDropout(TorchFunctionMode):
    """Dropout functions return their input."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        named = dict(kwargs or {})
        name = str(getattr(func, "__name__", "")).strip("_")
        if name in DROPOUT_FUNCTIONS:
            return args[0] if args else named["input"]
        if name == "scaled_dot_product_attention":
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            named |= {"dropout_p": 0.0} if "dropout_p" in named else {}
        return func(*args, **named)
