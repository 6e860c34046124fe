"""What a safetensors file holds, from its first bytes: eight for a length, then JSON. No torch, and no tensor is
read."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trueloop.errors import BadCheckpoint

__all__ = ["Entry", "entries_of"]

LONGEST: Final = 100_000_000
"""Bytes that a header may take, by the format's own rule: a damaged length must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of the file."""

    name: str
    dtype: str
    """F32, BF16, I64 ...: the format's words."""
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)


def entries_of(path: Path) -> list[Entry]:
    """In the order of the file's names. Raises BadCheckpoint."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > LONGEST:
                raise ValueError(f"a header of {length:,} bytes")
            header: dict[str, Any] = json.loads(file.read(length))
        listed = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return [
            Entry(name, str(entry["dtype"]), tuple(int(size) for size in entry["shape"]))
            for name, entry in sorted(listed.items())
        ]
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read ({error.strerror}).") from None
    except (struct.error, ValueError, AttributeError, KeyError, TypeError) as error:
        raise BadCheckpoint(f"{path} is no safetensors file ({error}).") from None
