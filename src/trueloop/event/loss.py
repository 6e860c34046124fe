"""Losses, and the first NaN or Inf."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["FittedColumn", "LossAgainstChance", "LossComputed", "LossCurve", "NotFinite", "PredictionsFitted"]
__all__ += ["ContrastivePairsRead", "CtcTargetsRead", "ReturnsCredited", "RiskSetsByRow", "RiskSetsTested"]
__all__ += ["EventFlagsMoved"]
__all__ += ["PaddedTargetsAveraged", "TargetsBootstrapped"]


@dataclass(frozen=True, slots=True)
class LossComputed(Event):
    """A call of a loss function of torch.nn.functional, also through an nn.XLoss module."""

    function: str  # cross_entropy, nll_loss, mse_loss, binary_cross_entropy_with_logits ...
    call: int  # counted from 0 per function and place
    grad: bool
    reduction: str
    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    input_dtype: str
    target_dtype: str
    input_range: tuple[float, float] | None  # smallest and largest value; None: not measured on this call
    target_range: tuple[float, float] | None
    rows: Literal["probabilities", "log-probabilities", "scores", "unknown"]  # by their sums over the class dimension
    preceding: tuple[str, ...]  # autograd nodes behind the input, nearest first, through views: SoftmaxBackward0 ...
    preceding_place: Place | None  # the user's line of the softmax, sigmoid or clamp among them, if seen
    preceding_module: str  # the nn module class that applied it ('Softmax'); empty: a function call
    target_integral: bool  # every target is an integer value
    target_distinct: int  # distinct target values of this call; 0: not measured
    target_rows_sum_to_one: bool | None  # for targets of the shape of the input; None: does not apply
    target_used_as_class: bool  # compared with an argmax or rounded prediction, or class ids of another loss
    ignore_index: int | None
    log_target: bool = False  # kl_div was told that its target holds log-probabilities


@dataclass(frozen=True, slots=True)
class LossAgainstChance(Event):
    """The losses of one line over the run, against the best constant prediction.

    Emitted at the end of the run, for each line that computed a mean loss of PyTorch with a graph.
    """

    function: str
    calls: int  # calls of the line with a graph
    sampled_calls: int  # calls whose targets were examined, and whose loss (or a multiple of it) went into backward
    targets: int  # targets in those
    classes: int  # distinct classes; 0: the targets are not classes
    one_sided: int  # sampled calls whose targets were all equal, or all different (as in contrastive losses)
    first: float  # mean loss of the first quarter of the sampled calls
    third: float  # of the third
    last: float  # of the last
    third_chance: float
    """Loss of the third quarter's targets if each is predicted by class frequencies, or by the target mean."""
    chance: float  # the same for the last quarter


@dataclass(frozen=True, slots=True)
class LossCurve(Event):
    """The losses at the line that called backward most often, emitted at the end of the run. `place`: that line."""

    count: int  # backward calls there
    share: float  # of all backward calls of the run
    seen: int  # size of an even sample of the losses, from which the following are computed
    first: tuple[float, ...]  # the first five
    peak: float  # maximum of the running medians of five
    end: float  # median of the last quarter
    swing: float  # 90th over 10th percentile of the last quarter
    below_zero: bool  # some loss was negative or non-finite
    closures: bool  # some backward ran inside an optimizer's step
    optimizers: int  # optimizers that took steps in this run
    bootstrapped: int  # steps with a model call without a graph: to compute targets, or to validate


@dataclass(frozen=True, slots=True)
class NotFinite(Event):
    """The first non-finite loss or gradient, and its origin by a replay of the forward."""

    what: Literal["loss", "gradient", "weight"]
    layer: str  # the first layer with non-finite output from finite input; empty: outside the model
    operation: str
    input_range: tuple[float, float] | None
    value: str  # nan or inf
    origin: Literal["input", "weight", "layer", "loss", "unknown"]
    learning_rates: tuple[float, ...]
    skipped: bool = False  # the step was skipped as configured: the weights are unaffected
    sample: int | None = None  # with origin input: the first sample of the batch that holds one
    loader: int | None = None  # the loader of the latest batch; None: no loader
    batch: int | None = None  # its index in the pass, from 0


@dataclass(frozen=True, slots=True)
class ReturnsCredited(Event):
    """Returns that weigh log-probabilities in time order add up rewards in the wrong direction. `place`: where the
    returns became a tensor."""

    direction: str  # earlier: the rewards before a step; mirrored: those of the mirrored step
    discount: float
    steps: int
    product: Place | None  # where they meet the log-probabilities


@dataclass(frozen=True, slots=True)
class TargetsBootstrapped(Event):
    """A recorded step computed targets as rewards plus a discounted value of a model. `place`: that line."""

    rows: int
    discount: float
    flags: tuple[str, ...]  # names of tensors of 0 and 1 beside it, one number for each row, that no operation reads
    ones: float  # share of ones in the first of them
    same_states: bool  # the value is that of the very states whose predictions are trained
    model: int = -1  # that computed the value
    same_rows: int = 0  # rows of which that is so


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """A column of predictions and its targets, over the last examined calls."""

    index: int
    mean: float  # of the predictions
    deviation: float
    target_mean: float
    target_deviation: float
    error: float  # mean absolute difference
    constant_error: float  # the same if the median of the targets is predicted
    first_mean: float  # of the predictions, in the first examined call
    first_target_mean: float
    range: tuple[float, float]  # of the predictions
    target_range: tuple[float, float]
    pinned: float  # share of predictions at an end of their range
    beyond: float  # of them: the target lies clearly beyond that end


@dataclass(frozen=True, slots=True)
class PredictionsFitted(Event):
    """Predictions that a line compares with targets of the same shape. `place`: that line. At the end of the run."""

    function: str  # mse_loss ...; difference: the script computes it
    calls: int  # or the latest recorded step
    last_call: int  # that was examined
    rows: int  # in the last examined calls
    recurring: float  # share of targets, in later calls, that came before: data that are read again
    columns: tuple[FittedColumn, ...]  # of more than 16 columns one for all; empty: non-finite numbers


@dataclass(frozen=True, slots=True)
class RiskSetsTested(Event):
    """The gradient of a loss is that of a partial likelihood (Cox). `place`: where the samples are sorted by time, or
    else where the sums over the sets are taken."""

    rows: int
    events: int
    later: bool  # the set of an event holds the samples of the same or a later time


@dataclass(frozen=True, slots=True)
class RiskSetsByRow(Event):
    """The gradient of a loss is that of a partial likelihood whose sets follow the order of the rows in the batch, and
    no column of the batch is sorted. `place`: where the sums over the sets are taken."""

    rows: int
    events: int
    shuffled: bool  # the rows come from a sampler or an index without an order
    unsorted: int  # columns with a different number for most samples: a time may be one of them


@dataclass(frozen=True, slots=True)
class EventFlagsMoved(Event):
    """The gradient of a loss is that of a partial likelihood whose scores or event flags, but not both, were sorted by
    time. `place`: where they are sorted."""

    rows: int
    events: int
    moved: int  # samples whose flag in the loss is not their own
    sorted: Literal["scores", "flags"]


@dataclass(frozen=True, slots=True)
class CtcTargetsRead(Event):
    """The targets of `ctc_loss` in a recorded training step, without padding. `place`: the call."""

    blank: int
    targets: int
    blanks: int  # of them: equal to the index of the blank
    classes: int


@dataclass(frozen=True, slots=True)
class PaddedTargetsAveraged(Event):
    """A recorded training step in which the targets of a loss end in padding that counts. `place`: the call."""

    function: str
    token: int  # of the padding
    rows: int
    padded: int  # of them: they end in padding
    positions: int  # of a row
    share: float  # of all targets: padding, but for the first padded one of each row, which may mark its end


@dataclass(frozen=True, slots=True)
class ContrastivePairsRead(Event):
    """The positives of a contrastive loss on a square table of similarities, in a recorded training step. `place`:
    where they are taken. The numbers are mean similarities, less that of all other pairs, in standard errors."""

    rows: int
    pairs: Literal["neighbors", "halves", "itself", "fixed"]
    """Row 2i with 2i + 1; row i with i + rows / 2; each row with itself; a table of other pairs."""
    table: int  # the same number: the same pairs
    positives: float
    neighbors: float
    halves: float
    unrelated: float  # the largest of pairs that are neither: neighbors that are no pair, rows at other distances
