"""Losses, and the first value that is no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["ChanceCompared", "LossComputed", "LossFollowed", "NotFinite"]


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
class ChanceCompared(Event):
    """The losses of one line over the run, against the best that one and the same answer to every sample would have
    got.

    Told when the run ends, for each line that computed a mean loss of PyTorch's with a graph.
    """

    function: str
    calls: int
    """How often the line ran with a graph."""
    looks: int
    """Calls whose targets were looked at, and whose loss itself (or a multiple of it) went into backward."""
    targets: int
    """Targets in those."""
    classes: int
    """Distinct ones; 0 where they are no classes."""
    one_sided: int
    """Looks whose targets were all the same, or all different (as those of contrastive losses, which number the
    samples)."""
    first: float
    """Mean loss of the first quarter of the looks,"""
    third: float
    """of the third,"""
    last: float
    """and of the last."""
    third_chance: float
    """What the targets of the third quarter cost if each is answered by the frequencies of the classes, or by the mean
    of the targets;"""
    chance: float
    """and those of the last."""


@dataclass(frozen=True, slots=True)
class LossFollowed(Event):
    """The course of the losses at the line that called backward most often, told when the run ends. `place` is that
    line."""

    count: int
    """Backwards there,"""
    share: float
    """and what share of all backwards of the run they are."""
    seen: int
    """Losses of an even sample of them, which the following numbers are taken from."""
    first: tuple[float, ...]
    """The first five."""
    peak: float
    """The highest level: of the medians of five in a row, which one odd loss does not move."""
    end: float
    """The median of the last quarter."""
    swing: float
    """How many times the low losses of the last quarter (a tenth lie below) the high ones (a tenth lie above) are."""
    below_zero: bool
    """Some loss was negative, or no number."""
    closures: bool
    """Some backward ran inside an optimizer's step."""
    optimizers: int
    """Optimizers that took steps in this run."""
    bootstrapped: int
    """Steps in which a model was also called without recording a graph: to make targets, or to validate."""


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
    sample: int | None = None
    """With origin input: the first sample of the batch that holds one."""
    loader: int | None = None
    """The loader that the latest batch came from, counted in the order of first use; None without one."""
    batch: int | None = None
    """Which batch of its pass that was, from 0."""
