"""Checksums of tensors, to see whether two are bit-identical."""

import zlib
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.data.source import tensors_in

__all__ = ["bit_identical", "differing_names", "digest_of", "digest_of_all"]

SAMPLE: Final = 1 << 16  # elements per digest, evenly spread: in training a difference soon spreads everywhere


def digest_of(tensor: Tensor, most: int = SAMPLE) -> int:
    """Of shape, dtype and values; of a tensor without readable values (meta, fake, sparse), of shape and dtype."""
    start = zlib.crc32(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
    plain = type(tensor) in (Tensor, torch.nn.Parameter, torch.nn.Buffer) and tensor.layout is torch.strided
    if not plain or tensor.is_meta or tensor.is_quantized or not tensor.numel():
        return start
    with torch.no_grad():
        flat = tensor.detach().reshape(-1)
        sample = flat[:: -(-flat.numel() // most)] if flat.numel() > most else flat
        data = sample.cpu().resolve_conj().resolve_neg().contiguous().view(torch.uint8)
    return zlib.crc32(data.numpy().data, start)


def digest_of_all(value: Any, most: int = SAMPLE) -> int:
    """Of every tensor inside dicts, lists and tuples, in order."""
    digest = 0
    for tensor in tensors_in(value):
        digest = zlib.crc32(digest_of(tensor, most).to_bytes(4, "little"), digest)
    return digest


def bit_identical(one: Tensor, other: Tensor) -> bool:
    """On any devices; NaN equals the same NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return digest_of(one, one.numel() + 1) == digest_of(other, other.numel() + 1)


def differing_names(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names that are missing in one of two state dicts, or whose values differ."""

    def equal(a: Any, b: Any) -> bool:
        return bit_identical(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)

    names = [*one, *(name for name in other if name not in one)]
    return [name for name in names if name not in one or name not in other or not equal(one[name], other[name])]
