"""Where a rank stood when it was looked at last: what its watching thread leaves for the other ranks to read, `1.stand`
in the folder where they meet. So of a rank that can no longer speak, the last known place is known. No torch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, final

from trueloop.event import Place

__all__ = ["RankStatus", "read_status"]


@final
@dataclass(frozen=True, slots=True)
class RankStatus:
    """What was seen at one look. Times are those of the machine's monotonic clock, which its processes share."""

    looked: float
    since: float
    """Nothing has moved since then."""
    doing: Literal["loading", "elsewhere"]
    places: tuple[Place, ...]
    """The user's lines that are under way, innermost first."""
    fetching: str
    """loading: what the batch comes from: 'Images, by worker 4711 (asleep)'."""
    process: int

    def seconds(self) -> float:
        return self.looked - self.since

    def written(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def read_status(content: bytes) -> RankStatus:
    said = json.loads(content)
    return RankStatus(**{**said, "places": tuple(Place(**place) for place in said["places"])})
