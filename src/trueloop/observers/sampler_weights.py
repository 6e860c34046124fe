"""Weights of a sampler that draws from a subset: were they made from the labels of the subset's own rows?"""

from typing import Any, Final

import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset, WeightedRandomSampler

from trueloop.event import SamplerWeightsCompared
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltLoader

__all__ = ["SamplerWeightsObserver"]

FEWEST: Final = 100  # rows
MOST: Final = 2_000_000
MOST_WEIGHTS: Final = 64  # different ones; more are weights of rows, not of classes
REPEATED: Final = 10  # rows with one value, on average: with fewer, they have one weight by chance
SAMPLED: Final = 16  # items of a list that show what it holds

Array = Any  # of numpy


class SamplerWeightsObserver(Observer):
    emits = (SamplerWeightsCompared,)

    @torch.no_grad()
    def loader_built(self, built: BuiltLoader) -> None:
        weights = _weights(built.loader)
        if weights is None:
            return
        dataset: Any = built.loader.dataset
        indices = numpy.arange(len(dataset))
        while isinstance(dataset, Subset) and len(indices):
            indices = numpy.asarray(dataset.indices)[indices]
            dataset = dataset.dataset
        if not FEWEST <= len(weights) == len(indices) <= MOST or numpy.array_equal(indices, numpy.arange(len(indices))):
            return
        classes = numpy.unique(weights)
        if not 2 <= len(classes) <= MOST_WEIGHTS:
            return
        columns = _columns(dataset, len(dataset))
        if any(_by_value(column[indices], weights) is not None for column in columns.values()):
            return  # the weights belong to the rows that are drawn
        for name, column in columns.items():
            by_value = _by_value(column[: len(weights)], weights)
            if by_value is not None:
                own = column[indices]
                wrong = sum(by_value.get(value, weight) != weight for value, weight in zip(own, weights, strict=True))
                self.emit(SamplerWeightsCompared, built.place, type(dataset).__name__, name, len(weights), len(column),
                          len(by_value), wrong)  # fmt: skip
                return


def _weights(loader: DataLoader[Any]) -> Array | None:
    sampler = loader.sampler if loader.batch_sampler is not None else None
    weights: Any = getattr(sampler, "weights", None) if isinstance(sampler, WeightedRandomSampler) else None
    return weights.numpy() if isinstance(weights, Tensor) and weights.is_cpu and weights.ndim == 1 else None


def _columns(dataset: Any, rows: int) -> dict[str, Array]:
    """What a dataset stores for each row: one number or word."""
    if type(dataset) is TensorDataset:
        stored: dict[str, Any] = {f"tensors[{index}]": tensor for index, tensor in enumerate(dataset.tensors)}
    else:
        stored = dict(getattr(dataset, "__dict__", {}))
    found: dict[str, Array] = {}
    for name, value in stored.items():
        if isinstance(value, (list, tuple)) and len(value) == rows:
            found |= {f"{name}{part}": numpy.asarray(column) for part, column in _listed(value).items()}
        elif isinstance(value, Tensor) and value.is_cpu and value.numel() == rows and not value.requires_grad:
            found[name] = value.reshape(-1).numpy()
        elif isinstance(value, numpy.ndarray) and value.size == rows and value.dtype.kind in "biufU":
            found[name] = value.reshape(-1)
    return found


def _listed(value: Any) -> dict[str, list[Any]]:
    """The columns of a list of labels, or of pairs of a file name and a label."""
    simple = (bool, int, float, str)
    if all(type(item) in simple for item in value[:SAMPLED]):
        return {"": list(value)} if all(type(item) in simple for item in value) else {}
    if not all(type(item) is tuple and len(item) == len(value[0]) for item in value):
        return {}
    columns = {f"[{part}]": [item[part] for item in value] for part in range(len(value[0]))}
    return {part: column for part, column in columns.items() if all(type(item) in simple for item in column)}


def _by_value(column: Array, weights: Array) -> dict[Any, float] | None:
    """The weight of each value, if all rows with one value have one weight."""
    values, codes = numpy.unique(column, return_inverse=True)
    if not 2 <= len(values) <= min(MOST_WEIGHTS, len(column) // REPEATED):
        return None
    lowest, highest = numpy.full(len(values), numpy.inf), numpy.full(len(values), -numpy.inf)
    numpy.minimum.at(lowest, codes, weights)
    numpy.maximum.at(highest, codes, weights)
    return dict(zip(values, lowest, strict=True)) if bool((lowest == highest).all()) else None
