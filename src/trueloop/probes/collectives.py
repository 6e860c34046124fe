"""The collectives of this rank, told when it ends: who waits in which one can only be seen beside the other ranks."""

from __future__ import annotations

from typing import Literal, cast

from trueloop.event import CollectivesCalled
from trueloop.probes.probe import Probe
from trueloop.taps.moment import Joined, RunEnd

__all__ = ["CollectiveProbe"]


class CollectiveProbe(Probe):
    emits = (CollectivesCalled,)
    safe_on_shards = True

    rank: int | None = None

    def group_joined(self, joined: Joined) -> None:
        self.rank = joined.rank

    def run_ended(self, end: RunEnd) -> None:
        journal = self.wire.journal
        if self.rank is None or journal is None:
            return
        reason = cast(Literal["finished", "cut", "exception", "interrupted", "exit", "hung"], end.reason)
        failure = f"{type(end.exception).__name__}: {end.exception}".split("\n")[0] if end.reason == "exception" else ""
        self.wire.emit(CollectivesCalled(self.wire.step, None, self.rank, journal.calls(), reason, failure))
