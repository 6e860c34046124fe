"""The last known state of a rank, which its sampling thread writes for the other ranks: `1.status` in their shared
folder.

So the last position of a rank that no longer responds is known. No torch."""

import json
from dataclasses import asdict, dataclass
from typing import Literal, final

from trueloop.event import Place

__all__ = ["RankStatus", "read_status"]


@final
@dataclass(frozen=True, slots=True)
class RankStatus:
    """One sample. Times are those of the machine's monotonic clock, which its processes share."""

    looked: float
    since: float  # No progress since then
    doing: Literal["loading", "elsewhere"]
    places: tuple[Place, ...]  # The user's lines on the stack, innermost first
    fetching: str  # While loading, the source of the batch: 'Images, by worker 4711 (asleep)'
    process: int

    def seconds(self) -> float:
        return self.looked - self.since

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def read_status(content: bytes) -> RankStatus:
    fields = json.loads(content)
    return RankStatus(**{**fields, "places": tuple(Place(**place) for place in fields["places"])})
