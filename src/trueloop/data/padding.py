"""Sequences of different lengths in one batch, padded to the longest.

    Dataset(reviews, collate=padded)                          pads with token 0
    Dataset(reviews, collate=partial(padded, pad=1))          pads with token 1

Targets are one per sample, or sequences; sequences are padded with `ignore`, which the losses skip: say so with
Facts(ignore=IGNORE).
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trueloop.errors import BadData

__all__ = ["IGNORE", "padded"]

IGNORE: Final = -100  # torch's default `ignore_index`


def padded(items: Sequence[tuple[Any, Any]], pad: float = 0, ignore: int = IGNORE) -> tuple[Tensor, Tensor]:
    """Inputs [N, T] and targets [N] or [N, T], where T is the longest sequence of this batch."""
    for number, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise BadData(f"Item {number} of a batch is a {type(item).__name__}, not a pair (sequence, target).")
    inputs = [_tensor(item[0], number, "inputs") for number, item in enumerate(items)]
    targets = [_tensor(item[1], number, "target") for number, item in enumerate(items)]
    for number, each in enumerate(inputs):
        if each.dim() == 0:
            raise BadData(f"Item {number} of a batch has a scalar as its inputs, not a sequence.")
    _check_shapes(inputs, "inputs")
    _check_shapes(targets, "target")
    return _pad(inputs, pad), torch.stack(targets) if targets[0].dim() == 0 else _pad(targets, ignore)


def _tensor(value: Any, number: int, which: str) -> Tensor:
    """Integers become int64; floats (audio frames, quantities) keep their type."""
    try:
        if isinstance(value, str):
            raise TypeError
        empty = not isinstance(value, (Tensor, np.ndarray, float, int)) and len(value) == 0
        tensor = torch.as_tensor(value, dtype=torch.long if empty else None)
    except (TypeError, ValueError):
        shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:56]} ..."
        raise BadData(f"Item {number} of a batch has {shown} as its {which}: numbers are needed.") from None
    return tensor if tensor.is_floating_point() else tensor.long()


def _check_shapes(sequences: list[Tensor], which: str) -> None:
    first = sequences[0]
    for number, each in enumerate(sequences):
        if each.dim() != first.dim() or each.shape[1:] != first.shape[1:]:
            shapes = f"{which} of shape {list(each.shape)}, the first has {list(first.shape)}"
            raise BadData(f"Item {number} of a batch has {shapes}: only the first dimension, the length, may differ.")


def _pad(sequences: list[Tensor], value: float) -> Tensor:
    """At least one step long: an empty text is all padding, and few models accept length zero."""
    if not any(map(len, sequences)):
        return sequences[0].new_full((len(sequences), 1, *sequences[0].shape[1:]), value)
    return pad_sequence(sequences, batch_first=True, padding_value=value)
