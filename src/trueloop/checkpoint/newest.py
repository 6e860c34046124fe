"""The newest checkpoint that is whole: damaged ones are named and passed over, never removed."""

from __future__ import annotations

from trueloop.checkpoint.contents import Contents, read_contents
from trueloop.checkpoint.store import Store
from trueloop.errors import BadCheckpoint

__all__ = ["newest_whole"]


def newest_whole(store: Store) -> tuple[str | None, Contents | None, list[str]]:
    """(its name, its contents, what was wrong with the newer ones)."""
    troubles: list[str] = []
    for name in reversed(store.names()):
        try:
            return name, read_contents(store, name), troubles
        except BadCheckpoint as error:
            troubles.append(str(error))
    return None, None, troubles
