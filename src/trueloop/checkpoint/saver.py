"""Saves checkpoints in the background, one at a time. An error is raised by the next save, check or finish."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, final

from trueloop.checkpoint.plan import name_of, obsolete
from trueloop.checkpoint.store import Store
from trueloop.errors import CannotSave

__all__ = ["Savable", "Saver"]


class Savable(Protocol):
    """A snapshot: `Contents`, or `ShardedSnapshot` for one process of a sharded run."""

    @property
    def about(self) -> Mapping[str, Any]: ...

    @property
    def first(self) -> bool:
        """Whether this process removes obsolete checkpoints."""

    def write(self, store: Store, name: str) -> str:
        """Write all or nothing; returns the location. Raises CannotSave."""


@final
class Saver:
    """Writes snapshots into a store; keeps the best and the last few."""

    def __init__(
        self,
        store: Store,
        keep: int,
        on_saved: Callable[[int, str], object] = lambda *_: None,
        any_failed: Callable[[bool], bool] | None = None,
    ) -> None:
        """`any_failed`: a collective for processes that save together, so that all raise at the same step."""
        self.store, self.keep, self.on_saved, self._any_failed = store, keep, on_saved, any_failed
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._done: list[tuple[int, str]] = []

    def save(self, contents: Savable) -> None:
        """Start saving. The contents must be a snapshot that does not change any more."""
        self._join()
        self.check()
        # A daemon thread: exiting does not wait for the disk, and an interrupted save leaves the previous checkpoint.
        self._thread = threading.Thread(target=self._write, args=(contents,), name="trueloop-saver", daemon=True)
        self._thread.start()

    def _write(self, contents: Savable) -> None:
        try:
            step, best = int(contents.about["step"]), contents.about.get("best_step")
            name = name_of(step)
            where = contents.write(self.store, name)
            if contents.first:
                for old in obsolete(self.store.names(), self.keep, name, None if best is None else name_of(best)):
                    self.store.remove(old)
            self._done.append((step, where))
        except BaseException as error:  # noqa: BLE001 - raised again in the training thread
            self._failure = error

    def check(self) -> None:
        """Report finished saves; raise an earlier error. Does not wait for the disk."""
        self._report()
        if self._any_failed is None:
            self._raise()
        elif self._any_failed(self._failure is not None):
            self.finish()
            raise CannotSave("Another process could not write a checkpoint or remove an old one: see its message.")

    def _report(self) -> None:
        while self._done:
            self.on_saved(*self._done.pop(0))

    def _raise(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            # With several processes, an error other than CannotSave is a lost connection: another process is gone.
            if isinstance(failure, CannotSave) or self._any_failed is not None:
                raise failure
            raise CannotSave(f"A checkpoint could not be written: {failure!r}") from failure

    def finish(self) -> None:
        """Wait for the disk; raise an error of this process. Not a collective: a process that fails alone calls it."""
        self._join()
        self._report()
        self._raise()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
