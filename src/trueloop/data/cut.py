"""Some samples of a batch. Its first dimension is the samples; what all samples share is declared, never guessed:

Splits(train, shared=("mask",))     inputs["mask"], an attention mask [T, T], goes whole to every micro-batch
Splits(train, shared=(1,))          the second of a tuple of inputs
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

from torch import Tensor

from trueloop.data.source import Batch
from trueloop.errors import BadData
from trueloop.measure.tensors import tensors_in

__all__ = ["batch_size", "cut"]

T = TypeVar("T")  # A batch, of whatever kind
Names = Sequence[str | int]


def batch_size(batch: Any, shared: Names = ()) -> int:
    """How many samples: the first dimension that targets and inputs have in common, or that of the first input."""
    batch = batch if isinstance(batch, Batch) else Batch(batch, None)
    inputs = [len(each) for each in _unshared(batch.inputs, shared) if each.dim()]
    targets = [len(each) for each in _unshared(batch.targets, shared) if each.dim()]
    sizes = [size for size in targets if size in inputs] or inputs or targets
    if not sizes:
        raise BadData("A batch holds no tensor with a dimension of samples: its size is unknown.")
    return sizes[0]


def _unshared(value: Any, shared: Names) -> Iterator[Tensor]:
    if isinstance(value, (dict, list, tuple)):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            if name not in shared:
                yield from _unshared(item, shared)
    else:
        yield from tensors_in(value)


def cut(batch: T, low: int, high: int, shared: Names = ()) -> T:
    """These samples of it. Raises BadData for a tensor that has another first dimension and is not declared shared."""
    size = batch_size(batch, shared)

    def part(value: Any, place: str, name: str | int | None = None) -> Any:
        if name in shared:
            return value
        if isinstance(value, dict):
            return {key: part(item, f"{place}[{key!r}]", key) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            if len(value) == size and not any(isinstance(each, (Tensor, dict, list, tuple)) for each in value):
                return value[low:high]  # texts, numbers: one for each sample
            parts = [part(item, f"{place}[{number}]", number) for number, item in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if not isinstance(value, Tensor) or value.dim() == 0:
            return value
        if len(value) != size:
            raise BadData(_not_samples(place, value, size))
        return value[low:high]

    if isinstance(batch, Batch):
        return cast(T, Batch(part(batch.inputs, "inputs"), part(batch.targets, "targets")))
    return cast(T, part(batch, "batch"))


def _not_samples(place: str, value: Tensor, size: int) -> str:
    name = place.rpartition("[")[2].rstrip("]") if "[" in place else ""
    cure = f"declare it, as in Splits(..., shared=({name},))" if name else "set accumulate=1"
    return (
        f"A batch of {size} samples cannot be split into micro-batches: {place} is {list(value.shape)}, not one row "
        f"per sample. If all samples share it, {cure}."
    )
