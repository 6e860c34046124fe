"""Where `accumulate` cannot give the step of the large batch, measured on the first batch."""

from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import Any

import torch

from trueloop.data.source import Batch, map_tensors, size_of
from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluating
from trueloop.engine.parts import Parts
from trueloop.engine.stream_batches import StreamBatches
from trueloop.engine.task import OwnLoss
from trueloop.torch_private.modules import BatchNorm

__all__ = ["accumulation_note"]

ROUNDING = 1e-4  # relative


def accumulation_note(parts: Parts) -> str:
    """A sentence for the start of the run; empty: micro-batches give the loss of the whole batch."""
    count = parts.recipe.accumulate
    if count == 1 or parts.strategy.in_parts:
        return ""
    own_loss = isinstance(parts.task, OwnLoss) and parts.recipe.step is None  # a step computes its losses itself
    if own_loss and isinstance(parts.batches, StreamBatches):
        return (
            f"accumulate={count}: whether your loss over micro-batches equals that of the batch was not measured: a "
            "stream's batch cannot be made twice."
        )
    losses = _losses(parts) if own_loss else None
    if losses is not None:
        whole, split = losses
        cure = "return `total, count`, set loss_count (targets -> number), or return one loss per sample"
        return (
            f"accumulate={count}: the loss of the first batch is {whole:.6g}, and that of its micro-batches together "
            f"{split:.6g}. A mean over tokens needs its divisor: {cure}. A loss that compares the samples of a batch "
            "(in-batch negatives) is a different one in smaller batches."
        )
    norms = sum(isinstance(module, BatchNorm) for module in parts.model.modules())
    if norms:
        return f"accumulate={count}: {norms} BatchNorm layers see one micro-batch at a time, so steps differ slightly."
    return ""


def _losses(parts: Parts) -> tuple[float, float] | None:
    """Of the first batch, whole and in micro-batches of the same outputs; None: they are equal."""
    with evaluating(parts.model), parts.precision.autocast():
        batch = parts.batches.batch_at(0, 0)
        if batch is None:
            return None
        output = map_tensors(call_model(parts.model, batch.inputs), torch.detach)
        if is_dataclass(output):
            return None  # an output with its own form, as of Hugging Face, may hold more than rows
        # The outputs are cut with the batch: a model that depends on the size of the batch is no matter of the loss.
        answered = [(micro.inputs[0], Batch(micro.inputs[1], micro.targets)) for micro in _cut(parts, output, batch)]
        if sum(size_of(output) for output, _ in answered) != size_of(batch.inputs):
            return None
        (whole, count), *others = (_sums(parts, *each) for each in ((output, batch), *answered))
    whole /= max(count, 1.0)
    split = sum(total for total, _ in others) / max(sum(count for _, count in others), 1.0)
    return None if abs(whole - split) <= ROUNDING * max(abs(whole), 1e-6) else (whole, split)


def _cut(parts: Parts, output: Any, batch: Batch) -> Sequence[Batch]:
    return parts.batches.micros(Batch((output, batch.inputs), batch.targets))


def _sums(parts: Parts, output: Any, batch: Batch) -> tuple[float, float]:
    found, count = parts.task.loss_and_count(output, batch)
    return float(found.total), float(count)
