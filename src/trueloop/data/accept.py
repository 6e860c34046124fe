"""What a recipe's `data` may return: `Splits`, a dataset or a stream, or (train, valid, test) of them; also by name, as
in a DatasetDict of Hugging Face."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from torch import Tensor

from trueloop.data.dataset import Dataset
from trueloop.data.source import Source, Splits
from trueloop.data.stream import Stream
from trueloop.errors import BadData

__all__ = ["as_splits"]

VALIDATION: Final = ("validation", "valid", "val", "dev")  # names of that split
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
    if isinstance(given, Mapping) and not any(isinstance(each, Tensor) for each in given.values()):
        return as_splits(_named_splits(given), as_stream)
    return Splits(_as_source(given, "train", as_stream))


def _named_splits(given: Mapping[Any, Any]) -> Splits:
    """Of a DatasetDict, or of a plain dict of datasets; further splits are left alone."""
    what = f"The recipe's data returned a {type(given).__name__} of {', '.join(map(str, given)) or 'nothing'}"
    if "train" not in given:
        cure = f"as in Splits(train=data[{next(iter(given), 'train')!r}])"
        raise BadData(f"{what}. Nothing was trained: there is no 'train'; name the split to train on, {cure}.")
    valid = next((name for name in VALIDATION if name in given), None)
    others = [name for name in given if str(name).startswith(VALIDATION)]
    if valid is None and others:
        cure = f"as in Splits(data['train'], data[{others[0]!r}])"
        raise BadData(f"{what}. Nothing was trained: name the split to validate on, {cure}.")
    return Splits(given["train"], None if valid is None else given[valid], given.get("test"))


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
