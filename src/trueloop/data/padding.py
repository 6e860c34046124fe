"""Sequences of different lengths in one batch: the shorter ones are filled up.

    Dataset(reviews, collate=padded)                          token 0 fills up
    Dataset(reviews, collate=partial(padded, pad=1))          token 1 does

Targets are one per sample, or sequences themselves; those are filled up with `ignore`, which the losses pass over: say
so by Facts(ignore=IGNORE).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trueloop.errors import BadData

__all__ = ["IGNORE", "padded"]

IGNORE: Final = -100
"""What torch's losses pass over unless told otherwise."""


def padded(items: Sequence[tuple[Any, Any]], pad: float = 0, ignore: int = IGNORE) -> tuple[Tensor, Tensor]:
    """Inputs [N, T] and targets [N] or [N, T], where T is the longest of this batch."""
    for number, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            raise BadData(f"Item {number} of a batch is a {type(item).__name__}, not a pair (sequence, target).")
    inputs = [_tensor(item[0], number, "inputs") for number, item in enumerate(items)]
    targets = [_tensor(item[1], number, "target") for number, item in enumerate(items)]
    for number, each in enumerate(inputs):
        if each.dim() == 0:
            raise BadData(f"Item {number} of a batch has one number as its inputs, not a sequence.")
    _refuse_other_shapes(inputs, "inputs")
    _refuse_other_shapes(targets, "target")
    return _filled(inputs, pad), torch.stack(targets) if targets[0].dim() == 0 else _filled(targets, ignore)


def _tensor(value: Any, number: int, which: str) -> Tensor:
    """Integers become int64; others (frames, samples of sound, quantities) keep their type."""
    try:
        if isinstance(value, str):
            raise TypeError
        empty = not isinstance(value, (Tensor, np.ndarray, float, int)) and len(value) == 0
        made = torch.as_tensor(value, dtype=torch.long if empty else None)
    except (TypeError, ValueError):
        shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:56]} ..."
        raise BadData(f"Item {number} of a batch has {shown} as its {which}: numbers are needed.") from None
    return made if made.is_floating_point() else made.long()


def _refuse_other_shapes(sequences: list[Tensor], which: str) -> None:
    first = sequences[0]
    for number, each in enumerate(sequences):
        if each.dim() != first.dim() or each.shape[1:] != first.shape[1:]:
            raise BadData(
                f"Item {number} of a batch has {which} of shape {list(each.shape)}, the first {list(first.shape)}: only the length, the "
                "first dimension, may differ."
            )


def _filled(sequences: list[Tensor], value: float) -> Tensor:
    """At least one long: an empty text is all padding, and few models can do with a length of zero."""
    if not any(map(len, sequences)):
        return sequences[0].new_full((len(sequences), 1, *sequences[0].shape[1:]), value)
    return pad_sequence(sequences, batch_first=True, padding_value=value)
