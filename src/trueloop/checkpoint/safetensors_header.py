"""The tensors listed in the header of a safetensors file: eight bytes of length, then JSON. No torch."""

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trueloop.errors import BadCheckpoint
from trueloop.trust.files import open_regular

__all__ = ["Entry", "entries_of"]

LONGEST: Final = 100_000_000  # largest header in bytes, by the format: a damaged length must not fill the memory


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of the file."""

    name: str
    dtype: str  # F32, BF16, I64 ...: the format's names
    shape: tuple[int, ...]
    start: int  # Of its numbers in the file; `end` is behind the last one
    end: int

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def entries_of(path: Path) -> list[Entry]:
    """Sorted by name. Raises BadCheckpoint."""
    try:
        with open_regular(path) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > LONGEST:
                raise ValueError(f"a header of {length:,} bytes")
            header: dict[str, Any] = json.loads(file.read(length))
        return [_entry(name, each, 8 + length) for name, each in sorted(header.items()) if name != "__metadata__"]
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror}).") from None
    except (struct.error, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise BadCheckpoint(f"{path} is not a safetensors file ({error}).") from None


def _entry(name: str, said: Any, numbers: int) -> Entry:
    """`numbers`: where the numbers of all tensors begin."""
    start, end = (numbers + int(offset) for offset in said["data_offsets"])
    if not numbers <= start <= end:
        raise ValueError(f"{name} has no place in it")
    return Entry(name, str(said["dtype"]), tuple(int(size) for size in said["shape"]), start, end)
