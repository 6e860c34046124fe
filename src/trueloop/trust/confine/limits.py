"""How much memory and time the opening of a file may take, by its size."""

import math
import resource
from dataclasses import dataclass
from typing import Final, Self

__all__ = ["Limits"]

MEMORY: Final = 1 << 30  # Bytes, for the smallest file
COPIES: Final = 4  # of the file's bytes, which a reader may hold: as read, as parsed, as answered
SECONDS: Final = 60.0  # of a processor, for the smallest file
BUSY: Final = 60.0  # Seconds of waiting, at least: a good file is not refused because other programs use the machine
BYTES_PER_SECOND: Final = 20_000_000
_NONE: Final = resource.RLIM_INFINITY  # -1
_LIBRARIES: Final = 32 << 30  # Address space: libraries of CUDA take much of it, and no memory


@dataclass(frozen=True, slots=True)
class Limits:
    """`seconds` are those of a processor; on a busy machine a reader may take longer. Infinite: each
    question has a limit of its own."""

    memory: int
    seconds: float

    @classmethod
    def of(cls, size: int, *, memory: int | None = None, seconds: float | None = None) -> Self:
        """For a file of so many bytes."""
        base, first = MEMORY if memory is None else memory, SECONDS if seconds is None else seconds
        return cls(base + COPIES * size, first + size / BYTES_PER_SECOND)

    @property
    def patience(self) -> float:
        """Seconds until the process that asked stops waiting."""
        return max(3 * self.seconds, BUSY)

    def apply(self) -> None:
        """To this process, for good."""
        seconds = max(1, int(self.seconds)) if self.seconds < math.inf else _NONE
        for what, most in (
            (resource.RLIMIT_DATA, self.memory),
            (resource.RLIMIT_AS, self.memory + _LIBRARIES),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(what)[1]  # of the shell that started this, which no process can raise
            least = hard if most == _NONE else most if hard == _NONE else min(most, hard)
            resource.setrlimit(what, (least, least))
