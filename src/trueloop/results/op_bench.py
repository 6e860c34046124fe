"""The result of `bench FILE.py:NAME`: an operation and its reference over sizes. No torch here."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["OpBench", "OpPace", "OpSize"]

EQUAL: Final = "equal"


@dataclass(frozen=True, slots=True)
class OpPace:
    """One function at one size. Times are seconds of a call."""

    name: str
    p50: float
    lowest: float  # the lowest and the highest median of a round
    highest: float
    calls: int


@dataclass(frozen=True, slots=True)
class OpSize:
    """All functions at one size."""

    size: int
    inputs: str  # f32[256,4096], -1
    cache: str  # warm, or cold: the L2 cache of a GPU is overwritten before each call
    paces: tuple[OpPace, ...]  # the operation first
    bytes: int  # read and written at least: the tensors of inputs and results
    flops: int  # 0: not countable
    agrees: bool  # with the reference

    def rate(self, pace: OpPace) -> float:
        """Bytes per second."""
        return self.bytes / pace.p50

    @property
    def winner(self) -> str:
        """The fastest, or 'equal' if its medians overlap with another's."""
        first, *others = sorted(self.paces, key=lambda pace: pace.p50)
        return first.name if all(first.highest < other.lowest for other in others) else EQUAL


@dataclass(frozen=True, slots=True)
class OpBench:
    name: str
    against: str  # empty: no reference
    sizes: tuple[OpSize, ...]
    machine: str
    device: str
    kind: str  # the dtype whose ceiling counts
    bandwidth: float  # ceilings of this machine, per second
    peak: float
    rounds: int
    seconds: float  # per function and size

    def plain(self) -> dict[str, Any]:
        winners: Mapping[str, Any] = {f"{each.size} {each.cache}": each.winner for each in self.sizes}
        return {**asdict(self), "winners": winners}
