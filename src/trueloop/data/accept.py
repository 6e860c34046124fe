"""What a recipe's `data` may return: `Splits`, a dataset, or (train, valid, test); each a source or a dataset."""

from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from trueloop.data.dataset import Dataset
from trueloop.data.source import Source, Splits
from trueloop.errors import BadData

__all__ = ["as_splits"]


def as_splits(given: Any) -> Splits:
    """Raises BadData with what to return instead."""
    if isinstance(given, Splits):
        valid = None if given.valid is None else _as_source(given.valid)
        test = None if given.test is None else _as_source(given.test)
        return replace(given, train=_as_source(given.train), valid=valid, test=test)
    if isinstance(given, tuple) and 1 <= len(given) <= 3 and not any(isinstance(each, Tensor) for each in given):
        train, valid, test = (*given, None, None)[:3]
        return as_splits(Splits(train, valid, test))
    return Splits(_as_source(given))


def _as_source(given: Any) -> Source:
    if isinstance(given, Source):
        return given
    if isinstance(given, DataLoader):
        said = "The recipe's data returned a DataLoader. Nothing was trained: return its dataset"
        raise BadData(f"{said}; batch size, order and workers are fields of the recipe (batch, workers).")
    if isinstance(given, (str, bytes, dict, Tensor, tuple)) or not hasattr(given, "__getitem__"):
        kind = "None" if given is None else f"a {type(given).__name__}"
        raise BadData(
            f"The recipe's data returned {kind}. Nothing was trained: return a dataset of (inputs, target), as "
            "TensorDataset(inputs, targets), or Splits(train, valid, test)."
        )
    return Dataset(given)
