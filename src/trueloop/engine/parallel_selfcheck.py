"""Does a model still answer the same when processes share its layers? Asked of the first batch, before anything is
trained.

Attention that counts its heads from the layer's whole width, a layer that is used in two places, an activation over all
numbers: a plan that looks right may make another function of the model. Rounding cannot be mistaken for it: a wrong
plan answers otherwise altogether.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.data.source import tensors_in
from trueloop.engine.batches import Batches
from trueloop.engine.buffers import BufferSnapshot
from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluating
from trueloop.engine.stream_batches import StreamBatches
from trueloop.errors import BadRecipe, TrueloopError
from trueloop.parallel.strategy import Strategy

__all__ = ["check_same_outputs"]

ROUNDING: Final = 1e-3  # of the largest output: sums in another order differ by less, another function by far more


@contextmanager
def check_same_outputs(model: nn.Module, batches: Batches | StreamBatches, strategy: Strategy) -> Iterator[None]:
    """Around `spread`. Raises BadRecipe if it changes the model's outputs. Checks nothing where no copies are held."""
    if not strategy.copies:
        yield
        return
    before = _answer(model, batches, strategy)
    yield
    after = _answer(model, batches, strategy)
    for one, other in zip(before, after, strict=True):
        if one.shape != other.shape or not _near(one, other):
            raise BadRecipe(f"parallel={strategy.name} changes the outputs of {type(model).__name__}: {_why(strategy)}")


def _why(strategy: Strategy) -> str:
    if strategy.stages > 1:
        return "a stage needs more of earlier stages than the output of a block. Nothing was run: use parallel=fsdp."
    return (
        f"{strategy.note.partition(', ')[2]} changes the function (as in attention that computes the number of heads "
        "from the full width). Nothing was trained: name other layers in tensor_plan, or parallel=fsdp."
    )


def _near(one: Tensor, other: Tensor) -> bool:
    if not one.is_floating_point():
        return True
    numbers = one[one.isfinite()]  # masked scores are -inf
    largest = float(numbers.abs().max()) if numbers.numel() else 0.0
    return bool(torch.allclose(one, other, rtol=0.0, atol=ROUNDING * largest, equal_nan=True))


def _answer(model: nn.Module, batches: Batches | StreamBatches, strategy: Strategy) -> list[Tensor]:
    """Of the first batch, in eval mode. A model that fails only when split is reported here."""
    batch = batches.batch_at(0, 0) if batches.steps_per_epoch else None
    if batch is None:
        return []
    statistics = BufferSnapshot(model)
    with evaluating(model):
        try:
            return list(tensors_in(call_model(model, batch.inputs)))
        except TrueloopError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0].rstrip('.')}"
            raise BadRecipe(f"{type(model).__name__} fails on the first batch: {said}. Nothing was trained.") from error
        finally:
            statistics.restore()
            strategy.settle(model)
