"""Saves in the background, one at a time, and never in silence: what went wrong is raised at the next save, check or
finish."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, final

from trueloop.checkpoint.plan import name_of, step_of, superfluous
from trueloop.checkpoint.store import Store
from trueloop.errors import CannotSave

__all__ = ["Savable", "Saver"]


class Savable(Protocol):
    """A snapshot: `Contents`, or what one process holds of a run that is spread over several (`Pieces`)."""

    @property
    def about(self) -> Mapping[str, Any]: ...

    @property
    def first(self) -> bool:
        """Does this process remove what is superfluous?"""

    def write(self, store: Store, name: str) -> str:
        """All or nothing; where it is now. Raises CannotSave."""


@final
class Saver:
    """Writes snapshots into a store; keeps the best and the last few."""

    def __init__(
        self,
        store: Store,
        keep: int,
        saved: Callable[[int, str], object] = lambda *_: None,
        any_of: Callable[[bool], bool] | None = None,
    ) -> None:
        """`any_of`: does any process say so? For processes that save together: what went wrong is raised on all at the
        same step."""
        self.store, self.keep, self._saved, self._any_of = store, keep, saved, any_of
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._done: list[tuple[int, str]] = []

    def save(self, contents: Savable) -> None:
        """Begins; the contents must be a snapshot that nobody changes any more."""
        self._join()
        self.check()
        # A daemon: who leaves at once does not wait for the disk, and a save that is cut off leaves the one before it.
        self._thread = threading.Thread(target=self._write, args=(contents,), name="trueloop-saver", daemon=True)
        self._thread.start()

    def _write(self, contents: Savable) -> None:
        try:
            step, best = int(contents.about["step"]), contents.about.get("best_step")
            name = name_of(step)
            where = contents.write(self.store, name)
            if contents.first:
                for old in superfluous(self.store.names(), self.keep, name, None if best is None else name_of(best)):
                    self.store.remove(old)
            self._done.append((step, where))
        except BaseException as error:  # noqa: BLE001 - carried over to the training's thread, and raised there
            self._failure = error

    def check(self) -> None:
        """Tell what has been saved; raise what went wrong. Does not wait for the disk."""
        self._tell()
        if self._any_of is None:
            self._raise()
        elif self._any_of(self._failure is not None):
            self.finish()
            raise CannotSave(
                "A checkpoint could not be written, or an old one not removed, by another process: it says why."
            )

    def _tell(self) -> None:
        while self._done:
            self._saved(*self._done.pop(0))

    def _raise(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            if isinstance(failure, CannotSave) or self._any_of is not None:
                raise failure  # of many, what is not a failure to save is a message that has not come: another process is gone
            raise CannotSave(f"A checkpoint could not be written: {failure!r}") from failure

    def finish(self) -> None:
        """Wait until the disk has it. What went wrong is raised here; not agreed: a process that fails alone finishes
        too."""
        self._join()
        self._tell()
        self._raise()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def newest_step(self) -> int | None:
        names = self.store.names()
        return step_of(names[-1]) if names else None
