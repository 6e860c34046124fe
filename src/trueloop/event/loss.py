"""Losses, and the first value that is no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["LossComputed", "NotFinite"]


@dataclass(frozen=True, slots=True)
class LossComputed(Event):
    """A call of a loss function of torch.nn.functional; nn.XLoss modules arrive here too."""

    function: str
    """cross_entropy, nll_loss, mse_loss, binary_cross_entropy_with_logits ..."""
    call: int
    """Counted from 0 per function and place."""
    grad: bool
    reduction: str
    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    input_dtype: str
    target_dtype: str
    input_range: tuple[float, float] | None
    """Smallest and largest value; None when it was not measured on this call."""
    target_range: tuple[float, float] | None
    rows: Literal["probabilities", "log-probabilities", "scores", "unknown"]
    """What the rows of the input over the class dimension are, by their sums."""
    behind: tuple[str, ...]
    """The operations straight behind the input, nearest first, seen through views: SoftmaxBackward0 ..."""
    behind_place: Place | None
    """The user's line of the softmax, sigmoid or clamp among them, if it was seen being called."""
    behind_module: str
    """The nn module class that applied it ('Softmax'), empty for a function call."""
    target_integral: bool
    """Every target is a whole number."""
    target_distinct: int
    """How many distinct target values this call held; 0 when not measured."""
    target_rows_sum_to_one: bool | None
    """For targets of the shape of the input; None when it does not apply."""
    target_used_as_class: bool
    """These targets are compared with an argmax or a rounded prediction, or are class ids of another loss."""
    ignore_index: int | None


@dataclass(frozen=True, slots=True)
class NotFinite(Event):
    """The first non-finite loss or gradient, and what a replay of the forward says of its origin."""

    what: Literal["loss", "gradient", "weight"]
    layer: str
    """The first layer with a non-finite output from finite inputs; empty if it arose outside the model."""
    operation: str
    input_range: tuple[float, float] | None
    value: str
    """nan or inf."""
    origin: Literal["input", "weight", "layer", "loss", "unknown"]
    learning_rates: tuple[float, ...]
    skipped: bool = False
    """The step was left out, as the user had asked for: the weights have not seen it."""
