"""Ready-made orders for `Recipe(order=...)`: functions of (epoch, generator, train) that return batches.

    order=bucketed(lengths, batch=32)                       samples of similar length share a batch
    order=classes_by_samples(classes=8, samples=4)          8 classes in each batch, 4 samples of each

Lengths and labels are lists, or functions of the training data, as in lambda train: [len(each) for each in TEXTS].
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trueloop.data.source import Source
from trueloop.errors import BadData

__all__ = ["bucketed", "classes_by_samples"]

PerSample = Sequence[int] | Tensor | Callable[[Source], Any]
Order = Callable[[int, torch.Generator, Source], list[list[int]]]


def bucketed(lengths: PerSample, batch: int, pool: int = 50) -> Order:
    """All samples once. Each `pool` batches of shuffled samples are sorted by length, cut, and shuffled as batches."""
    return partial(_bucketed, lengths if callable(lengths) else torch.as_tensor(lengths), batch, pool)


def classes_by_samples(classes: int, samples: int, labels: PerSample | None = None) -> Order:
    """For metric learning (P x K): batches of `classes` random classes with `samples` samples each, as many batches as
    the data fill once. A class with fewer samples repeats them. None: the labels that the training data list."""
    given = labels if labels is None or callable(labels) else torch.as_tensor(labels)
    return partial(_classes_by_samples, given, classes, samples)


def _bucketed(
    lengths: Any, batch: int, pool: int, epoch: int, generator: torch.Generator, train: Source
) -> list[list[int]]:
    long = _per_sample(lengths, train, "lengths")
    batches: list[list[int]] = []
    for some in torch.split(torch.randperm(len(train), generator=generator), pool * batch):
        batches += (part.tolist() for part in torch.split(some[torch.argsort(long[some], stable=True)], batch))
    return [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]


def _classes_by_samples(
    labels: Any, classes: int, samples: int, epoch: int, generator: torch.Generator, train: Source
) -> list[list[int]]:
    labels = train.labels() if labels is None else labels
    if labels is None:
        raise BadData("classes_by_samples needs the class of each sample: give labels=, a list with one per sample.")
    labels = _per_sample(labels, train, "labels")
    members = [torch.nonzero(labels == each).flatten() for each in torch.unique(labels)]
    if len(members) < classes:
        raise BadData(f"classes_by_samples(classes={classes}): the training data have {len(members)} classes.")

    def some_of(members: Tensor) -> list[int]:
        rounds = [torch.randperm(len(members), generator=generator) for _ in range(-(-samples // len(members)))]
        chosen: list[int] = members[torch.cat(rounds)[:samples]].tolist()
        return chosen

    def batch() -> list[int]:
        chosen = torch.randperm(len(members), generator=generator)[:classes].tolist()
        return [number for each in chosen for number in some_of(members[each])]

    return [batch() for _ in range(max(1, len(labels) // (classes * samples)))]


def _per_sample(given: Any, train: Source, what: str) -> Tensor:
    values = torch.as_tensor(given(train) if callable(given) else given)
    if len(values) != len(train):
        raise BadData(f"There are {len(values):,} {what} for {len(train):,} training samples: give one for each.")
    return values
