"""Data loaders, epochs, and the batches they yield. `loader`: loaders are numbered in the order of first use."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["BatchInspected", "BatchRewritten", "DatasetRedrawn", "EpochStarted", "EvaluationCurve", "EvaluationPass"]
__all__ += ["FirstLayerInput", "InputNotFinite", "IteratorExhausted", "LabelsCompared", "LoadersOutOfSync"]
__all__ += ["CollatedApart", "EvaluationPrinted", "LabelsScored", "RowsShared", "SamplerWeightsCompared"]
__all__ += ["SeedChecked", "StoredRowsRewritten"]


@dataclass(frozen=True, slots=True)
class EpochStarted(Event):
    """A pass over a loader began."""

    loader: int
    batches: int | None  # len(loader)
    passes: int  # passes started over this loader, this one included
    names: tuple[str, ...] = ()  # the words of its names in the user's code, at the first pass


@dataclass(frozen=True, slots=True)
class BatchInspected(Event):
    """A batch that was examined: the first ones of the first passes, and some later ones.

    Emitted when its fate is known. `step` is the step when the loader yielded it; `place` is where the pass began.
    """

    loader: int
    dataset: int  # which dataset, by identity; -1: cannot be recognized again (a list)
    built: Place | None  # where the loader was built
    optimizers_built: int  # a model that is trained anew (the next fold or trial) has a new optimizer
    passes: int  # passes over this loader since the last optimizer was built, this one included
    index: int  # of the batch in its pass, from 0
    size: int  # samples in the batch
    samples: int | None  # samples in a complete pass
    order: Literal["random", "sequential", "stream", "distributed", "other"]
    """What decides the order. random: a shuffling sampler of PyTorch; stream: the dataset; other: a user's sampler."""
    with_replacement: bool  # the sampler draws with replacement: a row may come twice in one pass
    own_generator: bool  # the loader or its sampler was given a generator
    fate: Literal["trained", "evaluated", "unknown"]
    """trained: a backward and a step used it; evaluated: a model was called and no backward can follow."""
    stepped: int | None  # the step that used it; None: none did
    models: tuple[int, ...]  # models that were called on it
    rows: tuple[int, ...]  # a digest per sample; of some samples where the batch is large
    labels: tuple[int, ...]  # class of each sample, where it went into a loss as such; empty: not seen
    neighbor_distance: tuple[float, ...]
    """Distance of each sample to the next over that to any other, per tensor: 1 for unordered samples. Empty: not
    measured."""
    windows: bool  # each sample is the previous one shifted: windows over a series, or next-token targets
    placeholder: int | None  # the number that one of its tensors holds for every sample: it is no label
    scored: bool  # after a model call on it, a loss function gave a scalar or an argmax was taken
    carries_state: bool  # the model was also given its output for the batch before: a state carried across batches


@dataclass(frozen=True, slots=True)
class RowsShared(Event):
    """Two loaders index one dataset, and some indices belong to both. `place`: where the pass over `other` began."""

    loader: int
    other: int  # the one that was started later
    dataset: str
    samples: int
    other_samples: int
    shared: int
    other_built: Place | None


@dataclass(frozen=True, slots=True)
class InputNotFinite(Event):
    """A batch held NaN or Inf, and a model or loss function propagated it. `place`: the call of that."""

    loader: int
    passes: int
    index: int  # of the batch in its pass, from 0
    tensor: str  # where it is in the batch: `[0]`, `['image']`
    sample: int  # the first sample of the batch that holds one
    bad_samples: int
    size: int
    value: str  # nan or inf
    into: str  # the model's class, or the loss function
    evaluating: bool  # gradients were not being recorded


@dataclass(frozen=True, slots=True)
class DatasetRedrawn(Event):
    """Samples were drawn repeatedly in a forked copy of the process, once, before the first batch of a dataset."""

    loader: int
    dataset: str  # its class
    workers: int
    persistent: bool  # persistent_workers=True
    samples: int  # keys that were drawn; 0: refused
    refused: str  # why nothing could be measured; empty otherwise
    rewritten: str  # the attribute that a draw changed, so that the same key gave a different sample; empty: none
    values: tuple[float, ...]  # the largest value of the sample at each of those draws
    rewritten_share: float  # of the elements of the sample, which differed
    rewritten_place: Place | None
    identical_across: Literal["", "workers", "epochs", "samples"]  # across what random draws repeat; empty: nothing
    cause: Literal["", "generator", "worker_init_fn", "seed", "dataset"]
    cause_name: str  # the generator's attribute, or the function that seeds
    cause_place: Place | None


@dataclass(frozen=True, slots=True)
class BatchRewritten(Event):
    """The loop wrote in place into a batch that shares memory with the dataset: the next epoch reads what it left."""

    loader: int
    dataset: str
    attribute: str  # of the dataset, which owns the memory
    before: float  # largest value of the batch
    after: float


@dataclass(frozen=True, slots=True)
class StoredRowsRewritten(Event):
    """Training steps wrote in place into rows of a tensor of the script that then went into a model, and later those
    rows have changed again. `place`: the line that wrote."""

    function: str  # that wrote
    rows: int  # that were followed
    changed: int  # of them, since the step that wrote
    zeros: tuple[float, ...]  # of each changed row: how much larger its share of zeros is later
    sizes: tuple[float, ...]  # its mean absolute value later, over that before
    means: tuple[float, ...]  # by how much its mean has moved, in standard deviations


@dataclass(frozen=True, slots=True)
class FirstLayerInput(Event):
    """What a batch feeds into the first layer with weights of a trained model. `place`: the call of the model."""

    model: int
    name: str
    layer: str  # name and class: `conv1 (Conv2d)`
    shape: tuple[int, ...]
    image: bool  # it is, or was before flattening, a batch of images or other grids
    smallest: float
    largest: float
    integer_share: float  # share of integer values
    typical: float  # median of the nonzero values
    narrowest: tuple[int, float] | None
    """Of tabular data: the column with the smallest 10th-90th percentile range, and that range. Constant columns do
    not count. None: not tabular, or too few rows."""
    widest: tuple[int, float] | None  # the column with the largest range
    normalized_next: bool  # the next layer is a normalization


@dataclass(frozen=True, slots=True)
class IteratorExhausted(Event):
    """A loop over batches drew from an iterator that was made before the loop around it, and ended; the loop around it
    took further turns, in which there was nothing to draw. `place`: the loop over batches."""

    phase: Literal["training", "evaluation"]
    iterable: str  # as written there
    kind: str  # generator, zip ..
    outer: Place | None  # the loop around it
    turns: int  # of that loop without a batch


@dataclass(frozen=True, slots=True)
class LabelsCompared(Event):
    """Class labels of samples with equal inputs, in the first training pass over a loader. `place`: where it began."""

    loader: int
    samples: int  # samples examined
    repeated: int  # those whose input had come before
    agreed: int  # those of them with the same label again
    expected: float  # share that would agree by chance, from the label frequencies
    classes: int


@dataclass(frozen=True, slots=True)
class CollatedApart(Event):
    """A loader's collate function put the inputs in a different order, and not the labels. `place`: the first pass."""

    collate: str  # its name
    rows: int
    moved: int  # of them: at a different place than their item
    wrong: int  # of them: with a different label than that of their item


@dataclass(frozen=True, slots=True)
class SamplerWeightsCompared(Event):
    """A loader draws rows of a subset by weights that belong to the first rows of the whole dataset. `place`: where the
    loader is built."""

    dataset: str  # its class
    column: str  # of the dataset, that the weights follow
    rows: int  # of the subset
    stored: int  # of the whole dataset
    classes: int
    wrong: int  # rows with the weight of a different class


@dataclass(frozen=True, slots=True)
class LabelsScored(Event):
    """The labels of one of the first training losses, where the script cuts its batches itself. `place`: the loss."""

    labels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoadersOutOfSync(Event):
    """A model's input and its loss target came from two loaders that shuffle independently. `place`: the loss."""

    inputs: int  # the loader that gave the input
    targets: int
    samples: int  # in each of the two datasets
    batches: int  # such pairs seen
    inputs_place: Place | None  # where the pass over the inputs began


@dataclass(frozen=True, slots=True)
class EvaluationPass(Event):
    """A model was called without gradients on the batches of a pass, with mean losses. `place`: the call."""

    sizes: tuple[int, ...]  # samples in each batch, in order
    loss_place: Place | None
    mean_of_means: float | None  # of the losses; None: not seen
    mean_of_samples: float | None  # the same losses, weighted by sample count


@dataclass(frozen=True, slots=True)
class EvaluationPrinted(Event):
    """Which mean of an evaluation's losses the script printed. Emitted at the end of the run. `place`: the print.

    Counted are passes of three or more batches in which the numbers differ to the printed digits."""

    loss_place: Place | None
    passes: int
    mean_of_means: int  # passes of which it printed the mean of the batch means
    mean_of_elements: int  # the mean over all numbers (or labels) that the losses average
    last: int  # the loss of the last batch
    batches: tuple[tuple[int, int], ...]  # of the latest of these passes: samples, and numbers that the loss averages
    values: tuple[float, float, float]  # of the same pass: the three numbers
    other_lines: bool  # losses of other batches are printed, too


@dataclass(frozen=True, slots=True)
class EvaluationCurve(Event):
    """The mean loss of every evaluation pass over the same number of samples. `place`: the loss."""

    model: int
    samples: int
    losses: tuple[tuple[int, float], ...]  # the step, and the mean over the samples
    names: tuple[str, ...]  # the words of the loader's names in the user's code


@dataclass(frozen=True, slots=True)
class SeedChecked(Event):
    """Emitted at the first step of a run: was PyTorch's generator seeded?"""

    seeded: bool
    seeded_late: bool  # seeded only after the first optimizer got parameters that were drawn without a seed
    drawn: bool  # random numbers were drawn from it
    model: str  # class of the first model that was called
