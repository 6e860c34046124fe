"""A few numbers of each weight of a state, by name: enough to tell which states it was made from."""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable

__all__ = ["WeightSample", "weight_sample"]

WEIGHTS: Final = 24  # of a state
NUMBERS: Final = 64  # of a weight
_PREFIX: Final = "module."  # of wrappers and of averaged models

WeightSample = dict[str, Tensor]


def weight_sample(state: Mapping[str, Any]) -> WeightSample:
    """Of matrices only: biases and norms often begin with the same numbers."""
    found: WeightSample = {}
    for name, value in state.items():
        plain = value.data if isinstance(value, Tensor) else None
        if len(found) == WEIGHTS or not is_plain(plain) or plain.ndim < 2:
            continue
        if plain.is_floating_point() and is_readable(plain):
            numbers = evenly_spaced(plain.reshape(-1), NUMBERS)
            found[name.removeprefix(_PREFIX)] = numbers.to("cpu", torch.float64, copy=True)
    return found
