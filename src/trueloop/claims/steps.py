"""A training step in its parts, for claims that look between them: what `engine/train.py` does, without guard, log and
saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from trueloop.data.source import Batch, size_of
from trueloop.engine.batches import Window
from trueloop.engine.nonfinite_guard import clear_gradients
from trueloop.engine.parts import Parts
from trueloop.engine.schedule import set_rate
from trueloop.parallel.gradient import clip, norm_of

__all__ = ["backward", "few", "micros_at", "some", "update", "whole_batch", "without_dropout"]

_DROPPING: Final = frozenset(
    {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"}
)  # fmt: skip
"""Functions of torch that give their input back when they draw nothing."""


def whole_batch(parts: Parts, step: int) -> Batch:
    """What a run trains on after so many steps, prepared and augmented as there."""
    batch = parts.batches.batch_at(*divmod(step, parts.batches.steps_per_epoch))
    assert batch is not None, "a single process has a part in every batch"
    return batch


def micros_at(parts: Parts, step: int) -> Sequence[Batch]:
    """The same in the parts that the recipe asks for."""
    return parts.batches.micros(whole_batch(parts, step))


def backward(parts: Parts, micros: Sequence[Batch]) -> Tensor:
    """The loss of one step; its gradients, unscaled, are on the parameters. A loss that depends on no weight leaves
    none there."""
    targets = parts.count_targets(Window(micros, 0, ends_epoch=False))
    clear_gradients([*parts.model.parameters(), *parts.parameters])
    losses = []
    for micro in micros:
        with parts.precision.autocast():
            loss = parts.task.loss_sum(parts.forward(micro.inputs), micro.targets) / targets
        if loss.requires_grad:
            parts.precision.scaled(loss).backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    parts.precision.unscale(parts.optimizer)
    return torch.stack(losses).sum()


def update(parts: Parts, rate: float) -> None:
    """From these gradients, clipped as the recipe asks; not with one that overflowed under a scaler."""
    if parts.recipe.clip is not None:
        clip(parts.parameters, norm_of(parts.parameters), parts.recipe.clip)
    set_rate(parts.optimizer, rate)
    parts.precision.step(parts.optimizer)
    parts.precision.learn()


def some(value: Any, rows: Sequence[int], of: int) -> Any:
    """These samples: the same rows of every tensor that has as many rows as the batch; everything else as it is."""
    if isinstance(value, Tensor):
        return value[list(rows)] if value.dim() and value.shape[0] == of else value
    if isinstance(value, dict):
        return {key: some(item, rows, of) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(some(item, rows, of) for item in value))
    return type(value)(some(item, rows, of) for item in value) if isinstance(value, (list, tuple)) else value


def few(batch: Batch, samples: int) -> Batch:
    """The first samples of a batch, or as many as it has."""
    whole = size_of(batch.inputs)
    rows = range(min(samples, whole))
    return Batch(some(batch.inputs, rows, whole), some(batch.targets, rows, whole))


# -- without chance --


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Nothing is dropped inside, whatever mode the model is in, and whether a layer or a function drops."""
    inside = [module for module in model.modules() if isinstance(module, (nn.MultiheadAttention, nn.RNNBase))]
    shares = [module.dropout for module in inside]
    for module in inside:
        module.dropout = 0.0  # they drop in the middle of one function of torch's
    try:
        with _Kept():
            yield
    finally:
        for module, share in zip(inside, shares, strict=True):
            module.dropout = share


@final
class _Kept(TorchFunctionMode):
    """Functions that drop give back what they are given."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        name = str(getattr(func, "__name__", "")).strip("_")
        if name in _DROPPING:
            return args[0] if args else given["input"]
        if name == "scaled_dot_product_attention":
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            given |= {"dropout_p": 0.0} if "dropout_p" in given else {}
        return func(*args, **given)
