"""What a recipe's `data` may return: `Splits`, a dataset or a stream, or (train, valid, test) of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from trueloop.data.dataset import Dataset
from trueloop.data.source import Source, Splits
from trueloop.data.stream import Stream
from trueloop.errors import BadData

__all__ = ["as_splits"]

AsStream = Callable[[Any, str], Stream | None]
"""Of anything that is read by iterating, and the name of its split; None: it is nothing of that kind."""


def as_splits(given: Any, as_stream: AsStream) -> Splits:
    """Raises BadData with what to return instead."""
    if isinstance(given, Splits):
        parts = {name: getattr(given, name) for name in ("train", "valid", "test")}
        made: dict[str, Any] = {
            name: _as_source(part, name, as_stream)
            for name, part in parts.items()
            if part is not None or name == "train"
        }
        return replace(given, **made)
    if isinstance(given, tuple) and 1 <= len(given) <= 3 and not any(isinstance(each, Tensor) for each in given):
        train, valid, test = (*given, None, None)[:3]
        return as_splits(Splits(train, valid, test), as_stream)
    return Splits(_as_source(given, "train", as_stream))


def _as_source(given: Any, split: str, as_stream: AsStream) -> Source:
    if isinstance(given, Stream) and split != "train":
        raise BadData(
            f"Splits({split}=...) is the stream {type(given).__name__}, which has no end. Nothing was trained: "
            "evaluation needs a dataset, or a DataLoader."
        )
    if isinstance(given, Source):
        return given
    if not isinstance(given, (str, bytes, dict, Tensor, tuple)):
        if (stream := as_stream(given, split)) is not None:
            return stream
        if hasattr(given, "__getitem__"):
            return Dataset(given)
    kind = "None" if given is None else f"a {type(given).__name__}"
    raise BadData(
        f"The recipe's data returned {kind}. Nothing was trained: return a dataset of (inputs, target), as "
        "TensorDataset(inputs, targets), a DataLoader, or Splits(train, valid, test)."
    )
