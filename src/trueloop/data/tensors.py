"""Samples held in memory as tensors: uint8 stays uint8 until a batch is prepared on the device."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from trueloop.data.source import Batch, Source, map_tensors, moved
from trueloop.errors import BadData

__all__ = ["Tensors"]


@final
class Tensors(Source):
    """Inputs and targets, one row per sample: tensors, or NumPy arrays, whose memory is shared. Without targets, as for
    a generative model, the targets are the inputs. For a model with several heads, a dict of targets by name."""

    def __init__(
        self,
        inputs: Tensor | np.ndarray[Any, Any],
        targets: Tensor | np.ndarray[Any, Any] | Mapping[str, Tensor | np.ndarray[Any, Any]] | None = None,
    ) -> None:
        self.inputs = _as_tensor(inputs, "inputs")
        self.targets: Any = self.inputs
        if isinstance(targets, Mapping):
            if not targets:
                raise BadData("The targets are an empty dict. Nothing was trained: give at least one, or leave it out.")
            self.targets = {name: _as_tensor(each, f"targets {name!r}") for name, each in targets.items()}
        elif targets is not None:
            self.targets = _as_tensor(targets, "targets")
        for each, of in self._by_name():
            if len(self.inputs) != len(each):
                counts = f"{len(self.inputs):,} inputs and {len(each):,} targets{of}"
                raise BadData(f"There are {counts}: each sample needs one of each. Nothing was trained.")

    def _by_name(self) -> list[tuple[Tensor, str]]:
        named = self.targets.items() if isinstance(self.targets, dict) else [("", self.targets)]
        return [(each, f" {name!r}" if name else "") for name, each in named]

    def __len__(self) -> int:
        return len(self.inputs)

    def fetch(self, numbers: Tensor) -> Batch:
        # index_select: the same rows as [numbers], several times faster for uint8 on a CPU.
        targets = map_tensors(self.targets, lambda each: each.index_select(0, numbers))
        return Batch(self.inputs.index_select(0, numbers), targets)

    def resident(self, device: torch.device) -> Source:
        if self.inputs.device == device:
            return self
        inputs = self.inputs.to(device)
        return Tensors(inputs, inputs if self.targets is self.inputs else moved(self.targets, device))

    def nbytes(self) -> int:
        return self.inputs.nbytes + (
            0 if self.targets is self.inputs else sum(each.nbytes for each, _ in self._by_name())
        )

    def labels(self) -> Tensor | None:
        held = self.targets
        return held if isinstance(held, Tensor) and held.dim() == 1 and not held.is_floating_point() else None


def _as_tensor(value: Any, which: str) -> Tensor:
    if not isinstance(value, (Tensor, np.ndarray)):
        said = f"The {which} are a {type(value).__name__}: Tensors takes tensors or NumPy arrays"
        raise BadData(f"{said}. Nothing was trained: use torch.as_tensor(...), and for several targets a dict.")
    if value.ndim == 0:
        raise BadData(f"The {which} are a scalar: they need one row per sample. Nothing was trained.")
    if isinstance(value, Tensor):
        return value
    if value.dtype.kind in "OUS":
        raise BadData(_not_numeric(value, which))
    try:
        return torch.from_numpy(value)
    except TypeError:
        cure = "Nothing was trained: use .astype('float32')."
        raise BadData(f"The {which} are {value.dtype}, which no tensor can hold. {cure}") from None


def _not_numeric(values: np.ndarray[Any, Any], which: str) -> str:
    """Why an array of objects or strings is refused, with the first bad row."""
    rows = enumerate(np.ravel(np.asarray(value, dtype=object)).tolist() for value in values.tolist())
    number = (bool, int, float, np.number)
    bad = ((row, each) for row, items in rows for each in items if not isinstance(each, number))
    row, value = next(bad, (0, values[0]))
    is_class = isinstance(value, str) and which.startswith("targets")
    cure = "encode the classes as 0, 1, 2 and so on" if is_class else "convert them: .astype('float32')"
    kind = "strings" if values.dtype.kind in "US" else "Python objects"
    return (
        f"The {which} are a NumPy array of {kind}; row {row} is {value!r} ({type(value).__name__}). "
        f"Tensors hold numbers only. Nothing was trained: {cure}."
    )
