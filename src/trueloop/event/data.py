"""Passes over data, and what came out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = [
    "BatchLooked",
    "BatchRewritten",
    "DatasetRehearsed",
    "EpochStarted",
    "FirstLayerFed",
    "InputNotFinite",
    "LabelsCompared",
    "LoadersParted",
    "PassScored",
    "RowsShared",
    "SeedAsked",
]


@dataclass(frozen=True, slots=True)
class EpochStarted(Event):
    loader: int
    """Which loader, counted in the order of first use."""
    batches: int | None
    """How many batches it says it has."""
    passes: int
    """How many times it has been started, this one included."""


@dataclass(frozen=True, slots=True)
class BatchLooked(Event):
    """A batch of a loader that was looked at, told when its fate is known: the first ones of the first passes, and some
    later ones.

    `step` is that of the moment it was drawn; `place` is the line that began the pass.
    """

    loader: int
    """Which loader, counted in the order of first use, as in `EpochStarted`."""
    dataset: int
    """Which dataset, by identity; -1 for one that cannot be told again (a list)."""
    built: Place | None
    """Where the loader was built."""
    life: int
    """Optimizers that had been built: a model that is trained anew (the next fold, the next trial) has an optimizer of
    its own."""
    passes: int
    """Passes over this loader in this life, this one included."""
    index: int
    """Of the batch in its pass, from 0."""
    size: int
    """Samples in it."""
    samples: int | None
    """Samples in a whole pass."""
    order: Literal["random", "sequential", "stream", "distributed", "other"]
    """Who says which samples come: random: a shuffling sampler of PyTorch's; stream: the dataset itself; other: a
    sampler of the user's."""
    repeats: bool
    """The sampler draws with replacement, so that a row may come twice in one pass."""
    own_generator: bool
    """The loader or its sampler was given a generator."""
    fate: Literal["trained", "evaluated", "unknown"]
    """trained: a backward went through what a model made of it, and a step followed; evaluated: models were called on
    it, and no backward can come any more; unknown: neither is certain."""
    stepped: int | None
    """The step that moved weights by it; None if none did."""
    models: tuple[int, ...]
    """Those that were called on it."""
    rows: tuple[int, ...]
    """A digest of each sample; of some samples, where the batch is large."""
    labels: tuple[int, ...]
    """The class of each sample, where it went into a loss as such; empty where that was not seen."""
    likeness: tuple[float, ...]
    """How far each sample is from the next, against any other, for each tensor: 1 for samples in no order. Empty when
    it was not asked."""
    windows: bool
    """Each sample is the one before, moved on: windows over a series, or targets that are the inputs one place on."""
    scored: bool
    """A single number was computed by a loss function, or a decision was made (argmax), after a model was called on
    it."""
    carried: bool
    """The model was also given what it had made of the batch before: a state that lives from batch to batch."""


@dataclass(frozen=True, slots=True)
class RowsShared(Event):
    """Two loaders draw, by number, from one dataset, and some numbers belong to both. `place` is where the pass over
    `other` began."""

    loader: int
    other: int
    """The one that was started later."""
    dataset: str
    samples: int
    other_samples: int
    shared: int
    other_built: Place | None


@dataclass(frozen=True, slots=True)
class InputNotFinite(Event):
    """A batch of a loader held a value that is no number, and so did what a model or a loss function made of it.

    `place` is the call of the model, or of the loss function.
    """

    loader: int
    passes: int
    index: int
    """Of the batch in its pass, from 0."""
    tensor: str
    """Where it lies in the batch: `[0]`, `['image']`."""
    sample: int
    """The first sample of the batch that holds one."""
    bad_samples: int
    size: int
    value: str
    """nan or inf."""
    into: str
    """The model's class, or the loss function."""
    evaluating: bool
    """No gradients were being recorded."""


@dataclass(frozen=True, slots=True)
class DatasetRehearsed(Event):
    """Samples of a dataset were drawn again and again in a copy of the process, once, before its first batch."""

    loader: int
    dataset: str
    """Its class."""
    workers: int
    persistent: bool
    """The workers live on from one pass to the next."""
    samples: int
    """How many keys were drawn; 0 if it was refused."""
    refused: str
    """Why nothing could be learnt; empty otherwise."""
    rewritten: str
    """The attribute whose contents a draw had changed, so that the next draw of the same key gave another sample; empty
    if none did."""
    values: tuple[float, ...]
    """The largest number of the sample at each of those draws."""
    rewritten_place: Place | None
    alike: Literal["", "workers", "epochs", "samples"]
    """Between what the random draws do not differ; empty if they do, or if nothing is random."""
    cause: Literal["", "generator", "worker_init_fn", "seed", "dataset"]
    cause_name: str
    """The generator's attribute, the function's name, or the function that seeds."""
    cause_place: Place | None


@dataclass(frozen=True, slots=True)
class BatchRewritten(Event):
    """The loop has written into a batch that is the dataset's own memory: the next pass draws what it left there."""

    loader: int
    dataset: str
    attribute: str
    """Of the dataset, whose memory it is."""
    before: float
    """The largest number of the batch."""
    after: float


@dataclass(frozen=True, slots=True)
class FirstLayerFed(Event):
    """What a batch puts into the first layer with weights of a model that is trained: numbers that no other layer has
    touched.

    `place` is the call of the model.
    """

    model: int
    name: str
    layer: str
    """Its name and class: `conv1 (Conv2d)`."""
    shape: tuple[int, ...]
    image: bool
    """It is, or was before it was flattened, a batch of images or other grids."""
    smallest: float
    largest: float
    whole: float
    """The share of whole numbers among them."""
    typical: float
    """The median of those that are not zero."""
    narrow: tuple[int, float] | None
    """Of a table, the column with the smallest spread and that spread, from the tenth to the ninetieth percentile;
    constant ones are left out. None where it is no table, or has too few rows to tell."""
    wide: tuple[int, float] | None
    """The column with the largest spread."""
    normed: bool
    """The next layer is a normalisation."""


@dataclass(frozen=True, slots=True)
class LabelsCompared(Event):
    """In the first pass over a loader that trains, the class labels of samples whose inputs were equal. `place` is
    where the pass began."""

    loader: int
    samples: int
    """Samples that were looked at."""
    repeated: int
    """Those whose input had come before."""
    agreed: int
    """Those of them that had the same label again."""
    expected: float
    """The share that would agree by chance, by how often each label came."""
    classes: int


@dataclass(frozen=True, slots=True)
class LoadersParted(Event):
    """A model's input came from one loader and the target of its loss from another, and each has shuffled on its own.

    `place` is the loss.
    """

    inputs: int
    """The loader that gave the input."""
    targets: int
    samples: int
    """Samples in each of the two datasets."""
    batches: int
    """How many such pairs were seen."""
    inputs_place: Place | None
    """Where the pass over the inputs began."""


@dataclass(frozen=True, slots=True)
class PassScored(Event):
    """A model was called without gradients on batch after batch of a pass, and losses were taken as means. `place` is
    the call."""

    sizes: tuple[int, ...]
    """Samples in each batch, in order."""
    loss_place: Place | None
    mean_of_means: float | None
    """Of the losses; None where they were not seen."""
    mean_of_samples: float | None
    """The same losses, each counted as often as it has samples."""


@dataclass(frozen=True, slots=True)
class SeedAsked(Event):
    """Told at the first step of a run: had anybody seeded PyTorch's generator?"""

    seeded: bool
    seeded_late: bool
    """It was seeded, but only after the first optimizer was given parameters that had been drawn without a seed."""
    drawn: bool
    """Random numbers were taken from it."""
    model: str
    """The class of the first model that was called."""
