"""Which tensors a value holds, which of them can be read, and which elements of a large one to read."""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeGuard

import torch
from torch import Tensor, nn

__all__ = ["dense", "evenly_spaced", "is_plain", "is_readable", "memory_of", "read_numbers", "same_memory"]
__all__ += ["deviation_of", "mean_of", "on_host", "storage_address", "tensors_in"]

_PLAIN: Final = (int, float, str, type(None), torch.dtype)  # first: the question for a Mapping is slow
LARGEST_COPY: Final = 1 << 22  # elements
PIECE: Final = 1 << 16  # elements that are copied in double precision at a time


def tensors_in(value: Any, limit: int | None = None) -> Iterator[Tensor]:
    """Every tensor inside mappings, lists and tuples, in order. `limit`: items of each container to visit."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, _PLAIN):
        return
    elif isinstance(value, (tuple, list)):
        for item in islice(value, limit):
            yield from tensors_in(item, limit)
    elif isinstance(value, Mapping):
        for item in islice(value.values(), limit):
            yield from tensors_in(item, limit)


def is_plain(value: Any) -> TypeGuard[Tensor]:
    """A tensor with its own storage: not a shard, not a fake tensor."""
    return type(value) in (Tensor, nn.Parameter)


def is_readable(tensor: Tensor) -> bool:
    """Dense, real and not empty. During the capture of a CUDA graph no tensor is: a read would break the capture."""
    plain = tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_nested or tensor.is_complex())
    return plain and tensor.numel() > 0 and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def evenly_spaced(tensor: Tensor, limit: int, dim: int = 0) -> Tensor:
    """At most `limit` slices along a dimension, evenly spaced; a view."""
    size = tensor.shape[dim]
    return tensor if size <= limit else tensor[(slice(None),) * dim + (slice(None, None, -(-size // limit)),)]


def on_host(sample: Tensor) -> Tensor:
    """A sample on the CPU, unless it is large. Computing with it on a CUDA device would load kernels that the script
    does not use: each takes tens of MB of the process."""
    return sample.detach().cpu() if sample.numel() <= LARGEST_COPY else sample.detach()


def mean_of(tensor: Tensor) -> float:
    """In double precision, without a copy of all elements in that precision."""
    if tensor.numel() <= PIECE or not tensor.ndim:
        return tensor.double().mean().item()
    rows = max(1, PIECE * len(tensor) // tensor.numel())
    return sum(part.double().sum().item() for part in torch.split(tensor, rows)) / tensor.numel()


def deviation_of(tensor: Tensor, mean: float) -> float:
    """Of all elements of a finite tensor, in double precision and without such a copy of all of them."""
    parts = torch.split(tensor.reshape(-1), PIECE)
    total: float = sum(part.double().sub_(mean).square_().sum().item() for part in parts)
    return math.sqrt(total / tensor.numel())


def dense(gradient: Tensor) -> Tensor:
    """The rows of a sparse gradient (an embedding's) that the batch touched; other gradients unchanged."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def read_numbers(numbers: list[Tensor]) -> list[float]:
    """The values of scalar tensors, with one wait for the device where all are on the same one."""
    if len({number.device for number in numbers}) > 1:
        return [number.item() for number in numbers]
    values: list[float] = torch.stack(numbers).tolist() if numbers else []
    return values


def storage_address(tensor: Tensor) -> int:
    """0: it has none to read, as meta, fake, sparse and opaque tensors."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # torch raises either, by the kind of tensor
        return 0


def memory_of(tensor: Tensor) -> int:
    """The address of its storage; its identity where it has none."""
    return storage_address(tensor) or id(tensor)


def same_memory(one: Tensor, other: Tensor) -> bool:
    """The same tensor, or a view of all its elements."""
    return one is other or (one.numel() == other.numel() and one.data_ptr() == other.data_ptr())
