"""Find the checkpoints that a path refers to: a run's folder, its `checkpoints` folder, or one checkpoint. No torch."""

from pathlib import Path

from trueloop.checkpoint.plan import step_of
from trueloop.checkpoint.store import MANIFEST, Folder
from trueloop.errors import BadCheckpoint

__all__ = ["best_or_newest", "find_checkpoints"]


def find_checkpoints(path: Path) -> tuple[Folder, list[str]]:
    """Their folder and their names, oldest first; at least one. Raises BadCheckpoint."""
    path = path.absolute() if path.name in ("", "..") else path
    if (path / MANIFEST).is_file() or (path.is_dir() and step_of(path.name) is not None):
        return Folder(path.parent), [path.name]
    for folder in (path / "checkpoints", path):
        store = Folder(folder)
        if names := store.names():
            return store, names
    if not path.exists():
        raise BadCheckpoint(f"{path} does not exist. Nothing was read.")
    raise BadCheckpoint(f"{path} holds no checkpoint. Nothing was read: name a run's folder or a checkpoint's folder.")


def best_or_newest(store: Folder, names: list[str]) -> str:
    """The run's best checkpoint, or the newest if none is marked as best."""
    best = store.best() if len(names) > 1 else None
    return best if best in names and best is not None else names[-1]
