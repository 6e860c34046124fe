"""Files that torch.save writes and torch.load reads: their contents, and whether this run wrote them."""

from __future__ import annotations

import os
from pickle import UnpicklingError

from torch.serialization import get_unsafe_globals_in_checkpoint

from trueloop.event import FileLoaded, FileWritten
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileRead, StateSave
from trueloop.taps.checkpoint_contents import contents_of, path_of

__all__ = ["TorchFilesObserver"]

_Identity = tuple[int, int]  # device and inode: a file keeps them when it is renamed


class TorchFilesObserver(Observer):
    emits = (FileWritten, FileLoaded)

    def prepare(self) -> None:
        self._own: set[_Identity] = set()

    def state_saved(self, save: StateSave) -> None:
        path = path_of(save.file)
        identity = _identity(path)
        if identity is not None:
            self._own.add(identity)
        self.emit(FileWritten, save.place, path, contents_of(save.value), save.direct)

    def file_read(self, read: FileRead) -> None:
        path = path_of(read.file)
        own = _identity(path) in self._own
        suspicious = read.unsafe and read.direct and bool(path) and not own
        foreign = _classes_in(path) if suspicious else None
        self.emit(
            FileLoaded,
            read.place,
            file=path,
            unsafe=read.unsafe,
            direct=read.direct,
            written_by_run=own,
            unsafe_classes=foreign or (),
            fully_read=foreign is not None,
        )


def _identity(path: str) -> _Identity | None:
    if not path or not os.path.isfile(path):
        return None
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _classes_in(path: str) -> tuple[str, ...] | None:
    """The globals in the file that a safe load refuses, read without executing anything. None if the format does not
    say."""
    try:
        return tuple(get_unsafe_globals_in_checkpoint(path))
    except (UnpicklingError, RuntimeError, ValueError):  # the format before 2020, or a pickle that is not PyTorch's own
        return None
