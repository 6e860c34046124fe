"""What enters a model and what it is compared with, in training and in evaluation, however the batches were cut."""

import math
from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["Alignment", "AnswersCompared", "Column", "ConstantPart", "InputsSummarized", "Labels", "MapOrder"]
__all__ += ["MemoryOrder", "RenamedPart", "Repeated", "RowsCompared", "ShiftedPart", "SoftTargetsCompared"]
__all__ += ["InputsStretched", "LengthsStated", "StoredOrderCompared", "StoredOutputsCompared"]
__all__ += [
    "PairsMatched",
    "RowsApart",
    "SequencesCounted",
    "TargetsAligned",
    "TargetsSummarized",
    "TokensCounted",
    "UnknownSymbols",
]
__all__ += ["ChannelsPooled", "ReorderedTargets", "StreamsFolded", "TableStandardized", "WindowsDrawn"]
__all__ += [
    "AnomaliesCompared",
    "BoxCorners",
    "BoxesCompared",
    "OwnTargetColumn",
    "TargetOrderCompared",
    "WindowEndsInTarget",
]


@dataclass(frozen=True, slots=True)
class Repeated:
    """One value that many rows of a column have, at an end of its range and far from all others."""

    value: float
    share: float  # of the rows
    gap: float  # distance to the nearest other value, over the range of the others (10th to 90th percentile)
    of_range: float  # the same distance, over the whole range of the others


@dataclass(frozen=True, slots=True)
class Column:
    """A feature, or a channel, over the sampled rows."""

    mean: float
    deviation: float
    low: float  # 10th percentile
    high: float  # 90th percentile
    smallest: float
    largest: float
    distinct: int
    repeated: Repeated | None = None
    predicts: float | None = None
    """Share of rows whose target the value alone gives, by its neighbor in sorted order; of classes only."""
    margin: float = 0.0  # distance between the values of different classes, over the column's range
    pinned: float = 0.0  # share of the rows whose class has one single value in this column
    by_default: float | None = None
    """Share of rows whose class is given by whether they have the most frequent value; of columns with few values, or
    with a default."""
    correlation: float | None = None  # with a target that is an amount


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """The order of the numbers of a sample in memory, where its shape says a different order."""

    channels: int
    last: bool
    """The channels alternate in memory, and the shape has them first. Else: each channel is in one piece, and the shape
    has them last."""
    related: float  # correlation of neighbors in time or space, in the order in memory
    claimed: float  # of neighbors by the shape


@dataclass(frozen=True, slots=True)
class RowsApart:
    """How well a small probe tells evaluated rows from training rows, and where they differ most."""

    view: str  # values; profile: means along each dimension; spectrum: bands of frequencies along the last dimension
    area: float  # under the ROC curve, of held-out rows
    position: int  # of the number that differs most
    width: int  # numbers of a row, in this view
    mean: float  # of that number in training
    deviation: float
    mean_there: float  # in evaluation
    deviation_there: float


@dataclass(frozen=True, slots=True)
class InputsSummarized(Event):
    """A tensor input of a model over the run, in one phase. `place`: the call of the model."""

    model: int
    name: str
    position: int  # which tensor argument
    phase: Literal["training", "evaluation"]
    kind: Literal["features", "channels", "tokens"]
    shape: tuple[int, ...]  # of the first call
    calls: int
    rows: int  # sampled
    columns: tuple[Column, ...]  # of tokens: none
    identical_rows: float  # share of the most frequent row among the sampled ones
    identical_elsewhere: float | None = None
    """Of training rows: the share of that same row in the evaluating call that has the fewest of it."""
    most_common: tuple[int, float] | None = None  # the most frequent id away from the ends, its share
    token_count: int = 0  # distinct tokens
    majority: float = 0.0  # share of the most frequent class among the targets of the sampled rows; 0: no classes
    classes: int = 0  # among those targets
    distinct_rows: int = 0  # sampled; the columns are about them
    uniform: tuple[int, int] = (0, 0)  # batches with equal rows only, of those with at least 8 rows
    table: int = 0  # rows of the model's largest embedding
    arguments: int = 1  # tensors that the model was called with
    probed: int = 0  # distinct rows with targets that a small probe model was given
    probe: float | None = None  # share of their targets that it predicts, cross-validated; of amounts R2
    chance: float = 0.0  # the same without looking at the rows
    transferred: float | None = None
    """Of evaluated rows that were not trained on: how well a probe of the training rows predicts their targets; of
    amounts the correlation."""
    transferred_rows: int = 0
    noise: bool = False  # all numbers of a row have one distribution and do not correlate: they may be random draws
    memory_order: MemoryOrder | None = None  # None: as the shape says, or not known
    late_columns: tuple[Column, ...] = ()  # of later training rows: data may grow, or change, while a model is trained

    @property
    def above_chance(self) -> float:
        """How many standard errors the probe is better than chance; 0 without a probe."""
        if self.probe is None:
            return 0.0
        chance = min(max(self.chance, 0.05), 0.95)
        return (self.probe - self.chance) / math.sqrt(chance * (1 - chance) / self.probed)


@dataclass(frozen=True, slots=True)
class TokensCounted(Event):
    """Token ids that entered a model without padding, in one phase: flat with offsets, as a list, or one sequence per
    call. `place`: the call of the model."""

    model: int
    name: str
    phase: Literal["training", "evaluation"]
    rows: int  # sequences
    most_common: tuple[int, float]  # the most frequent id, its share
    token_count: int  # distinct tokens
    table: int  # rows of the model's largest embedding


@dataclass(frozen=True, slots=True)
class UnknownSymbols:
    """The most frequent id inside sequences, where the script says that it stands for all unknown symbols."""

    token: int | None  # None: one-hot symbols, of which a position has none
    share: float  # of the symbols
    called: str  # its name in the script; empty: none that says unknown
    fallback: str  # the expression of the script that gives it to symbols without an entry


@dataclass(frozen=True, slots=True)
class SequencesCounted(Event):
    """Sequences of symbols that entered a model in one phase, as ids or one-hot. `place`: the call of the model."""

    model: int
    name: str
    phase: Literal["training", "evaluation"]
    rows: int
    width: int  # of the longest row
    token_count: int  # distinct symbols
    unknown: UnknownSymbols | None
    full: float  # share of rows that end without padding; 0 where the script pads nothing
    limit: str  # name in the script of the number that cuts sequences, if all rows have that width


@dataclass(frozen=True, slots=True)
class Labels:
    """Targets of one phase."""

    count: int
    classes: tuple[tuple[float, int], ...]  # value and count, the most frequent first; at most 64; empty: amounts
    distinct: int
    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class TargetsSummarized(Event):
    """The targets that the outputs of a model were compared with by loss functions. `place`: the loss."""

    model: int
    function: str
    training: Labels | None
    evaluation: Labels | None
    calls: int
    read_calls: int = 0  # of `calls`: those whose targets were read
    places: bool = False  # they are places in the batch, as of in-batch negatives, and not classes


@dataclass(frozen=True, slots=True)
class AnswersCompared(Event):
    """Outputs of a model beside their targets, for rows that it was not trained on, in its latest recorded evaluation.

    `place`: the evaluating call.
    """

    model: int
    name: str
    kind: Literal["classes", "labels", "amounts"]
    rows: int
    score: float  # share of classes that are right; of labels (the mean) and of amounts the correlation
    chance: float  # share of the most frequent class; of others 0
    relation: float  # correlation of outputs and targets; of classes that of the probabilities, mean over the classes
    training: float | None  # the same correlation on training rows
    evaluated_at: int  # step
    moved: tuple[tuple[int, int], ...]
    """Labels that a different output gives, and their own does not, one to one."""
    apart: RowsApart | None = None  # of rows on which a model fails that has learned its training rows


@dataclass(frozen=True, slots=True)
class AnomaliesCompared(Event):
    """Rows that an autoencoder was fitted to, beside the rows that its evaluation calls anomalies.

    `place`: the evaluating call.
    """

    model: int
    name: str
    labels: str  # the variable that names the anomalies
    training_rows: int
    rows: int  # evaluated
    anomalies: int  # of them
    share: float  # of the training rows: the nearest evaluated rows are all anomalies
    expected: float  # the same of the evaluated normal rows


@dataclass(frozen=True, slots=True)
class StreamsFolded(Event):
    """A long text that is written row by row, and whose targets are the next row.

    `place`: the loss.
    """

    streams: int  # symbols in a row: each target lies so many further on in memory
    symbols: int
    next_one: float  # bits that a symbol tells about the next one in memory
    next_row: float  # bits that it tells about its target


@dataclass(frozen=True, slots=True)
class TargetOrderCompared(Event):
    """Which of two target columns is larger, in training and in evaluation.

    `place`: the training loss.
    """

    model: int
    rows: int  # evaluated
    columns: int
    exchanged: tuple[tuple[int, int, float, float, float, float], ...]
    """Pairs of columns (the lower one first) whose order holds in evaluation (share of the rows) and not in training
    (share), the median difference of their evaluated targets, and that of the outputs."""


@dataclass(frozen=True, slots=True)
class RowsCompared(Event):
    """Rows that entered a model without gradients at one place, looked up among those it was trained on.

    `place`: the evaluating call.
    """

    model: int
    rows: int  # evaluated there, distinct
    shared: int  # of them also trained on
    training_rows: int  # distinct
    expected: float  # of `rows`: also trained on by chance, judged by equal rows within batches
    windows: int  # evaluated rows that were not trained on and are pieces of a series; 0: values are too coarse
    known_windows: int  # of them: their last four numbers lie inside a window that was trained on before
    calls: int
    distinct_batches: int  # different batches among the evaluating calls
    in_a_row: int  # most calls in a row, without training between, on an equal but new batch, with equal outputs
    mixed: int  # of `shared`: in batches that also have rows that were not trained on
    named: int  # of `shared`: in batches that have no others, and that the script calls validation or test
    alternating: bool  # nearly every call has a different batch and is followed by training: targets that are computed
    training_place: Place | None = None
    sampled_windows: int = 0  # of `rows`, compared with training rows by value, shifted in time
    late_windows: int = 0  # of them: they end inside a training window that begins later
    folded: int = 0
    """Rows that were trained on, and are held out now, while rows that were held out before are trained on."""
    coverage: float = 1.0  # share of the training set that is known: rows that are not known may belong to it


@dataclass(frozen=True, slots=True)
class ShiftedPart:
    """Stored rows whose targets fit those of other rows."""

    first: int
    last: int
    rows: int  # examined
    shift: int
    score: float  # at that distance
    own: float  # with their own targets
    elsewhere: float  # the same of all other rows


@dataclass(frozen=True, slots=True)
class RenamedPart:
    """Stored rows whose codes are, one to one, those of others elsewhere."""

    first: int
    last: int
    rows: int  # examined
    codes: tuple[tuple[float, float], ...]  # a code there, and the one that such rows have elsewhere
    score: float  # share of codes predicted after renaming
    own: float  # the same without
    elsewhere: float  # the same of all other rows


@dataclass(frozen=True, slots=True)
class ConstantPart:
    """Stored rows that have one code, which all others have only in part."""

    first: int
    last: int
    rows: int  # examined
    code: float
    recall: float  # share of them that a probe takes for this code
    elsewhere: float  # the same of other rows with this code
    apart: float  # how far the codes that they are taken for differ from those of the others; 1 at most


@dataclass(frozen=True, slots=True)
class ReorderedTargets:
    """Inputs and targets in the order of row numbers that are sorted as text, on one side only."""

    order: str
    rows: int  # examined
    score: float  # correlation of predictions with the targets in that order
    own: float  # the same with the targets of the rows
    example: tuple[int, int]  # a row, and the row whose target belongs to it


@dataclass(frozen=True, slots=True)
class StoredOrderCompared(Event):
    """Inputs and targets of training data in the order in which they are stored. `place`: the training call.

    A small probe predicts targets from inputs, cross-validated; its predictions are compared with the targets of the
    row itself and of the rows before and after it.
    """

    rows: int  # examined
    stored: int  # in all
    classes: int  # 0: amounts
    scores: tuple[float, ...]  # correlations with the target of the row at each distance, from -8 to 8
    shift: int  # the distance with the best one
    copied: bool  # at that distance the target is one of the inputs: a forecast
    related: float  # largest correlation of a column of the inputs with the same column of the next row
    halves: tuple[int, int]  # the distance at which the score stands out most, in each half of the rows
    kinks: tuple[float, ...]  # by how much the score of each distance is above those of its neighbors
    part: ShiftedPart | None = None
    renamed: RenamedPart | None = None
    constant: ConstantPart | None = None
    reordered: ReorderedTargets | None = None  # where the targets of the rows do not fit


@dataclass(frozen=True, slots=True)
class PairsMatched(Event):
    """Samples and dense targets (images, series) of training data, each compared with all others as small maps.

    `place`: the training call."""

    rows: int  # examined
    stored: int  # in all
    own: int  # of them: their own target fits best
    others: int  # of them: a different target fits them far better, and they it
    fit: float  # of those: median correlation with that target
    own_fit: float  # with their own
    shifted: float  # of those: share with the most frequent distance in the stored order
    by_chance: int  # as `others`, of mirrored targets
    examples: tuple[tuple[int, int], ...]  # rows, and where their targets are


@dataclass(frozen=True, slots=True)
class Alignment:
    """How dense targets (masks, images, series) lie on their samples, both as small maps."""

    rows: int
    aligned: int  # of them: the sample explains its target best as it is
    moved: int  # of them: clearly better if it is flipped, turned or shifted
    flipped: int  # of `moved`: by a flip or a turn
    fit: float  # of the aligned rows, the median share of the target's variance that the sample explains
    moved_fit: float  # of the moved rows, after the best move
    unmoved_fit: float  # of the moved rows, as they are


@dataclass(frozen=True, slots=True)
class MapOrder:
    """In which orientation dense targets follow their samples. A ridge regression on local features of the sample,
    fitted on one half of the rows, predicts the targets of the other half."""

    rows: int
    order: str  # the best one of the others
    used: float  # correlation of the prediction with the targets as they are
    fits: float  # in that other orientation
    used_deviations: float  # the same, in standard deviations from pairs of different rows
    fits_deviations: float
    square: bool  # maps in two dimensions; else series


@dataclass(frozen=True, slots=True)
class TargetsAligned(Event):
    """The samples of a model beside their dense targets. `place`: the call of the model in training."""

    model: int
    name: str
    training: Alignment
    evaluation: Alignment | None
    training_order: MapOrder | None = None
    evaluation_order: MapOrder | None = None
    answered: float | None = None  # share of a target's variance that the latest outputs in training explain
    answered_at: int = 0  # step
    predicted: Alignment | None = None  # training, by a regression on evaluated pairs: rows that fit in one orientation
    predicted_evaluation: Alignment | None = None  # the same of evaluated pairs, by a regression on the other half


@dataclass(frozen=True, slots=True)
class SoftTargetsCompared(Event):
    """Scores that outputs are fitted to, beside the labels of the same rows. `place`: the loss of the scores."""

    rows: int
    steps: int
    vague: float  # share of rows in which no class stands out
    classes: int  # among the labels
    agree: float  # share of rows whose highest score is that of the label
    chance: float  # the same for scores of other rows
    renamed: float  # the same, if each label is given by the class that most of its rows have
    codes: tuple[tuple[int, int], ...]  # labels with that class, where it is a different one; empty if not one to one
    live: bool = False  # a model computes them in each step: it may still be untrained


@dataclass(frozen=True, slots=True)
class StoredOutputsCompared(Event):
    """Targets that a model computed before the step, from samples that the step is trained on. `place`: where an output
    is compared with them."""

    rows: int  # whose own output is known
    of_others: int  # rows whose target is the output for a different sample


@dataclass(frozen=True, slots=True)
class BoxCorners:
    """Of rows of four numbers: the third minus the first, or the fourth minus the second: the sizes of boxes."""

    rows: int
    reversed: int  # negative differences
    size: float  # median of the positive ones
    reversed_size: float  # median of the negative ones, without their sign
    smallest: float  # without sign


@dataclass(frozen=True, slots=True)
class BoxesCompared(Event):
    """Rows of four numbers at one position of the batches of loaders. `place`: the loop of the training loader. At the
    end of the run."""

    training: tuple[BoxCorners, BoxCorners]  # of both axes: (first, third) and (second, fourth)
    evaluation: tuple[BoxCorners, BoxCorners]


@dataclass(frozen=True, slots=True)
class OwnTargetColumn(Event):
    """The columns of training rows with class labels, beside evaluated rows. `place`: the evaluating call. At the end
    of the run."""

    column: int | None  # whose values have one label in training, and several in evaluation; None: no such column
    training_rows: int
    rows: int = 0  # of them: with a value that has only one label
    values: int = 0
    new_rows: int = 0  # evaluated rows with one of these values
    contrary: int = 0  # of them: with a different label


@dataclass(frozen=True, slots=True)
class WindowEndsInTarget(Event):
    """In a recorded training step the first number of each target is the last number of its input, and the inputs are
    windows of a series. `place`: where the loss compares them."""

    window: int  # numbers along time
    horizon: int  # numbers in a target
    rows: int
    overlaps: int  # pairs of rows that share a stretch of the series


@dataclass(frozen=True, slots=True)
class InputsStretched(Event):
    """Inputs of a model with their targets, in training and in evaluation: what each position along an axis tells about
    the targets. `place`: the evaluating call. At the end of the run."""

    model: int
    name: str
    rows: tuple[int, int]  # in training and in evaluation
    axis: int  # of the inputs
    view: str = ""  # values or spectrum; empty: no stretch was found
    factor: float = 1.0  # position n in training is position `factor` * n in evaluation
    used: float = 0.0  # correlation of both as they are
    fits: float = 0.0  # after stretching


@dataclass(frozen=True, slots=True)
class LengthsStated(Event):
    """Sequences were packed with lengths that end each of them too early, by a constant factor."""

    rows: int
    factor: float  # positions for one of the length
    length: float  # in the median
    end: float  # of the content, in the median
    positions: int  # of a sequence with its padding
    modules: tuple[str, ...]  # source files of the user's modules


@dataclass(frozen=True, slots=True)
class TableStandardized(Event):
    """All columns of a stored training table have deviation 1 over its rows. `place`: the evaluating call."""

    model: int
    name: str
    rows: int
    columns: int
    centered: bool  # all columns have mean 0
    away: int  # columns whose mean is at least half a deviation from 0
    offset: float  # median of the means' sizes
    batches: int  # different evaluated ones
    own: bool  # each of them is standardized by itself, and training batches are not
    batch_rows: int  # of the largest


@dataclass(frozen=True, slots=True)
class ChannelsPooled(Event):
    """A stored training table has mean 0 and deviation 1 at each position, over samples and channels. `place`: the
    training call."""

    model: int
    name: str
    rows: int
    positions: int  # time steps
    channels: int
    narrowest: tuple[int, float]  # channel, its deviation
    widest: tuple[int, float]


@dataclass(frozen=True, slots=True)
class WindowsDrawn(Event):
    """Windows that the recorded training steps cut out of one stored stream. `place`: where."""

    length: int  # of the stream
    width: int  # of a window
    steps: tuple[tuple[int, int, int], ...]  # of each recorded step: first and last start, windows
    different: int  # steps whose windows differ
