"""Which checkpoints a path means: a run's folder, its `checkpoints` folder, or one checkpoint. No torch."""

from __future__ import annotations

from pathlib import Path

from trueloop.checkpoint.plan import step_of
from trueloop.checkpoint.store import MANIFEST, Folder
from trueloop.errors import BadCheckpoint

__all__ = ["chosen", "find_checkpoints"]


def find_checkpoints(path: Path) -> tuple[Folder, list[str]]:
    """Where they lie, and their names, oldest first; at least one."""
    path = path.absolute() if path.name in ("", "..") else path
    if (path / MANIFEST).is_file() or (path.is_dir() and step_of(path.name) is not None):
        return Folder(path.parent), [path.name]
    for folder in (path / "checkpoints", path):
        store = Folder(folder)
        if names := store.names():
            return store, names
    if not path.exists():
        raise BadCheckpoint(f"There is no {path}. Nothing was read.")
    raise BadCheckpoint(
        f"{path} holds no checkpoint: neither a run, nor a folder of checkpoints, nor one of them. Nothing was read."
    )


def chosen(store: Folder, names: list[str]) -> str:
    """The one that a run is known by: its best, or the newest if none is marked."""
    best = store.best() if len(names) > 1 else None
    return best if best in names and best is not None else names[-1]
