"""The collectives of this rank, emitted when it ends: only beside other ranks they show who waits for whom."""

from traceback import walk_tb
from typing import Literal, cast

from trueloop.event import CollectivesCalled, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import Joined, RunEnd
from trueloop.taps.place import full_name, is_users

__all__ = ["CollectiveObserver"]


class CollectiveObserver(Observer):
    emits = (CollectivesCalled,)
    safe_on_shards = True

    rank: int | None = None

    def group_joined(self, joined: Joined) -> None:
        self.rank = joined.rank

    def run_ended(self, end: RunEnd) -> None:
        journal = self.bus.collective_log
        if self.rank is None or journal is None:
            return
        reason = cast(Literal["finished", "cut", "exception", "interrupted", "exit", "hung"], end.reason)
        failure = f"{type(end.exception).__name__}: {end.exception}".split("\n")[0] if end.reason == "exception" else ""
        place = _raised(end.exception) if failure else None
        self.emit(CollectivesCalled, place, self.rank, journal.calls(), reason, failure)


def _raised(error: BaseException | None) -> Place | None:
    """The user's line that raised an exception."""
    raised = walk_tb(error.__traceback__) if error is not None else ()
    users = [(frame.f_code, line) for frame, line in raised if is_users(frame.f_code.co_filename)]
    return Place(full_name(users[-1][0].co_filename), users[-1][1], users[-1][0].co_qualname) if users else None
