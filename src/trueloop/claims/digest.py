"""Tensors as short numbers that tell whether two are the same to the last bit."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.data.source import tensors_in

__all__ = ["SAMPLE", "differing", "digest_of", "digest_of_all", "same_bits"]

SAMPLE: Final = 1 << 16
"""Numbers of a tensor that go into a digest, spread evenly over it: what differs anywhere soon differs everywhere in a
training."""


def digest_of(tensor: Tensor, most: int = SAMPLE) -> int:
    """Of shape, type and numbers; of a tensor that has none of its own to read (meta, fake, sparse) only of shape and
    type."""
    start = zlib.crc32(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
    if not _is_readable(tensor):
        return start
    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        some = flat[:: -(-flat.numel() // most)] if flat.numel() > most else flat
        plain = some.cpu().resolve_conj().resolve_neg().contiguous().view(torch.uint8)
    return zlib.crc32(plain.numpy().data, start)


def digest_of_all(value: Any, most: int = SAMPLE) -> int:
    """Of every tensor inside dicts, lists and tuples, in their order."""
    made = 0
    for tensor in tensors_in(value):
        made = zlib.crc32(digest_of(tensor, most).to_bytes(4, "little"), made)
    return made


def same_bits(one: Tensor, other: Tensor) -> bool:
    """To the last bit, wherever they lie; a nan is equal to the same nan."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return digest_of(one, one.numel() + 1) == digest_of(other, other.numel() + 1)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of tensors that are missing in one of two state dicts, or not the same in both."""
    names = [*one, *(name for name in other if name not in one)]
    return [name for name in names if name not in one or name not in other or not _same(one[name], other[name])]


def _same(one: Any, other: Any) -> bool:
    return same_bits(one, other) if isinstance(one, Tensor) and isinstance(other, Tensor) else bool(one == other)


def _is_readable(tensor: Tensor) -> bool:
    plain = type(tensor) in (Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return (
        plain
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
        and tensor.numel() > 0
    )
