"""Writes a safetensors file tensor by tensor. The library makes the complete file in memory first, twice its size, and
ends with a Rust panic where that does not fit; this needs no memory but for a tensor that is not contiguous.

A file is eight bytes of length, a JSON header, and the numbers of each tensor, little-endian.
"""

import json
import struct
import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from trueloop.errors import CannotSave

__all__ = ["DTYPES", "Sink", "write_tensors"]

DTYPES: Final[Mapping[str, torch.dtype]] = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U64": torch.uint64, "U32": torch.uint32,
    "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2": torch.float8_e5m2, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip
"""The format's names of the types that its library can read back as tensors."""
_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
_ALIGNED: Final = 8  # The header is padded to a multiple of it


class Sink(Protocol):
    """A file that takes arrays."""

    def write(self, data: Any, /) -> Any: ...


def write_tensors(tensors: Mapping[str, Tensor], out: Sink, metadata: Mapping[str, str] | None = None) -> None:
    """Raises CannotSave for a type that the format does not have."""
    if sys.byteorder != "little":
        raise CannotSave("Weights can be written on little-endian machines only. Nothing was written.")
    # Large types first: every tensor is aligned to the size of its numbers.
    listed = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in listed:
        if tensor.dtype not in _NAMES:
            said = f"{name} is {tensor.dtype}, which a safetensors file cannot hold"
            raise CannotSave(f"{said}. Nothing was written: convert it to one of {', '.join(DTYPES)}.")
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    out.write(struct.pack("<Q", len(text)) + text)
    for _, tensor in listed:
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        if flat.numel():
            out.write(flat.view(torch.uint8).numpy().data)
