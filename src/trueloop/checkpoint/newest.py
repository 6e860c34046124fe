"""The newest checkpoint that is whole: damaged ones are named and passed over, never removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trueloop.checkpoint.contents import Contents, read_contents
from trueloop.checkpoint.store import Store
from trueloop.errors import BadCheckpoint

__all__ = ["newest_by", "newest_whole"]

Held = TypeVar("Held")


def newest_whole(store: Store) -> tuple[str | None, Contents | None, list[str]]:
    """(its name, its contents, what was wrong with the newer ones)."""
    return newest_by(store, read_contents)


def newest_by(store: Store, read: Callable[[Store, str], Held]) -> tuple[str | None, Held | None, list[str]]:
    """The same, read in another way, which raises BadCheckpoint for what is not whole."""
    troubles: list[str] = []
    for name in reversed(store.names()):
        try:
            return name, read(store, name), troubles
        except BadCheckpoint as error:
            troubles.append(str(error))
    return None, None, troubles
