"""Saves in the background, one at a time, and never in silence: what went wrong is raised at the next save, check or finish."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

from trueloop.checkpoint.contents import Contents
from trueloop.checkpoint.plan import name_of, step_of, superfluous
from trueloop.checkpoint.store import Store
from trueloop.errors import CannotSave

__all__ = ["Saver"]


@final
class Saver:
    """Writes snapshots into a store; keeps the best and the last few."""

    def __init__(self, store: Store, keep: int, saved: Callable[[int, str], object] = lambda *_: None) -> None:
        self.store, self.keep, self._saved = store, keep, saved
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._done: list[tuple[int, str]] = []

    def save(self, contents: Contents) -> None:
        """Begins; the contents must be a snapshot that nobody changes any more."""
        self.finish()
        # A daemon: who leaves at once does not wait for the disk, and a save that is cut off leaves the one before it.
        self._thread = threading.Thread(target=self._write, args=(contents,), name="trueloop-saver", daemon=True)
        self._thread.start()

    def _write(self, contents: Contents) -> None:
        try:
            contents.wait()
            step, best = int(contents.about["step"]), contents.about.get("best_step")
            name = name_of(step)
            where = self.store.write(name, contents.about, contents.writers())
            for old in superfluous(self.store.names(), self.keep, name, None if best is None else name_of(best)):
                self.store.remove(old)
            self._done.append((step, where))
        except BaseException as error:  # noqa: BLE001 - carried over to the training's thread, and raised there
            self._failure = error

    def check(self) -> None:
        """Tell what has been saved; raise what went wrong. Does not wait."""
        while self._done:
            self._saved(*self._done.pop(0))
        if self._failure is not None:
            failure, self._failure = self._failure, None
            if isinstance(failure, CannotSave):
                raise failure
            raise CannotSave(f"A checkpoint could not be written: {failure!r}") from failure

    def finish(self) -> None:
        """Wait until the disk has it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def newest_step(self) -> int | None:
        names = self.store.names()
        return step_of(names[-1]) if names else None
