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
        return [
            Entry(name, str(entry["dtype"]), tuple(int(size) for size in entry["shape"]))
            for name, entry in sorted(header.items())
            if name != "__metadata__"
        ]
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror}).") from None
    except (struct.error, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise BadCheckpoint(f"{path} is not a safetensors file ({error}).") from None
