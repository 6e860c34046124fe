"""Layers of a model that behave differently in train and eval mode, its buffers, and the event that introduces it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from trueloop.event import ModelSeen, Place
from trueloop.torch_private.modules import DropoutNd, NormBase
from trueloop.usercode.ownership import class_place

__all__ = ["drops", "keeps_statistics", "model_seen", "restored_buffers"]


def drops(layer: nn.Module) -> bool:
    """A layer that drops some of its values in train mode."""
    if isinstance(layer, DropoutNd):
        return layer.p > 0
    if isinstance(layer, nn.RNNBase):
        return layer.dropout > 0 and layer.num_layers > 1
    return isinstance(layer, nn.MultiheadAttention) and layer.dropout > 0


def keeps_statistics(layer: nn.Module) -> bool:
    """A norm layer with running statistics."""
    return isinstance(layer, NormBase) and layer.track_running_stats


def model_seen(model: nn.Module, step: int, place: Place | None, number: int, *, compiled: bool) -> ModelSeen:
    return ModelSeen(
        step=step,
        place=place,
        model=number,
        name=type(model).__name__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        dropouts=sum(map(drops, model.modules())),
        batch_norms=sum(map(keeps_statistics, model.modules())),
        compiled=compiled,
        defined=class_place(type(model)),
    )


@contextmanager
def restored_buffers(model: nn.Module) -> Iterator[None]:
    """A forward in train mode changes running statistics: afterwards they are what they were."""
    before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
