"""Samples that are held in memory as tensors: uint8 stays uint8 until a batch is made ready on the device."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Batch, Source
from trueloop.errors import BadData

__all__ = ["Tensors"]


@final
class Tensors(Source):
    """Inputs and targets, one row per sample: tensors, or numpy arrays, whose memory is then shared."""

    def __init__(self, inputs: Tensor | np.ndarray[Any, Any], targets: Tensor | np.ndarray[Any, Any]) -> None:
        self.inputs, self.targets = _as_tensor(inputs, "inputs"), _as_tensor(targets, "targets")
        if len(self.inputs) != len(self.targets):
            raise BadData(
                f"There are {len(inputs):,} inputs and {len(targets):,} targets: each sample needs one of each. Nothing was trained."
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def fetch(self, numbers: Tensor) -> Batch:
        # index_select: the same rows as [numbers], several times faster for uint8 on a CPU.
        return Batch(self.inputs.index_select(0, numbers), self.targets.index_select(0, numbers))

    def resident(self, device: torch.device) -> Source:
        return self if self.inputs.device == device else Tensors(self.inputs.to(device), self.targets.to(device))

    def nbytes(self) -> int:
        return self.inputs.nbytes + self.targets.nbytes

    def labels(self) -> Tensor | None:
        return self.targets if self.targets.dim() == 1 and not self.targets.is_floating_point() else None


def _as_tensor(value: Any, which: str) -> Tensor:
    if not isinstance(value, (Tensor, np.ndarray)):
        raise BadData(
            f"The {which} are a {type(value).__name__}: Tensors takes tensors or numpy arrays. Nothing was trained."
        )
    if value.ndim == 0:
        raise BadData(f"The {which} are one number: they need one row per sample. Nothing was trained.")
    if isinstance(value, Tensor):
        return value
    if value.dtype.kind in "OUS":
        raise BadData(_no_numbers(value, which))
    try:
        return torch.from_numpy(value)
    except TypeError:
        raise BadData(
            f"The {which} are {value.dtype}, which no tensor can hold. Nothing was trained: use .astype('float32')."
        ) from None


def _no_numbers(values: np.ndarray[Any, Any], which: str) -> str:
    """Why an array of objects or texts is refused, with the first row that is to blame."""
    number = (bool, int, float, np.number)
    flat = (
        (row, each)
        for row, value in enumerate(values.tolist())
        for each in np.ravel(np.asarray(value, dtype=object)).tolist()
    )
    row, odd = next(((row, each) for row, each in flat if not isinstance(each, number)), (0, values[0]))
    cure = (
        "number the classes from 0"
        if isinstance(odd, str) and which == "targets"
        else "make them numbers: .astype('float32')"
    )
    return (
        f"The {which} are a numpy array of {'text' if values.dtype.kind in 'US' else 'Python objects'}; row {row} holds {odd!r} "
        f"({type(odd).__name__}), and tensors hold numbers only. Nothing was trained: {cure}."
    )
