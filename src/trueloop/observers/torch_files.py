"""Files of torch.save and torch.load: their contents, whether this run wrote them, and which rank did; and states whose
names start with a wrapper's prefix."""

import os
from collections.abc import Iterator, Mapping
from pickle import UnpicklingError
from typing import Any, Final

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.serialization import get_unsafe_globals_in_checkpoint

from trueloop.event import FileLoaded, FileWritten, Place, PrefixSaved, StateWritten
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileRead, Joined, RunEnd, StateLoad, StateSave, StateTaken
from trueloop.taps.checkpoint_contents import contents_of, path_of
from trueloop.torch_private.compiler import OptimizedModule
from trueloop.torch_private.modules import WRAPPED_MODULE

__all__ = ["PrefixObserver", "SavedFilesObserver", "TorchFilesObserver"]

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
        classes, known = foreign or (), foreign is not None
        self.emit(FileLoaded, read.place, path, read.unsafe, read.direct, own, classes, fully_read=known)


def _identity(path: str) -> _Identity | None:
    if not path or not os.path.isfile(path):
        return None
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _classes_in(path: str) -> tuple[str, ...] | None:
    """The globals in the file that a safe load refuses, read without executing any. None if the format does not say."""
    try:
        return tuple(get_unsafe_globals_in_checkpoint(path))
    except (UnpicklingError, RuntimeError, ValueError):  # the format before 2020, or a pickle that is not PyTorch's own
        return None


FILES: Final = 200  # writes of each rank to remember
DEPTH: Final = 3  # nesting depth of a state in a saved file: {"model": {"net": state}}


class SavedFilesObserver(Observer):
    emits = (StateWritten,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._rank: int | None = None
        self._left = FILES

    def group_joined(self, joined: Joined) -> None:
        self._rank = joined.rank

    def state_saving(self, save: StateSave) -> None:
        path = _path_of(save.file)
        if self._rank is not None and path and self._left:
            self._left -= 1
            self.emit(StateWritten, save.place, self._rank, path)


class PrefixObserver(Observer):
    emits = (PrefixSaved,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._states: dict[tuple[str, ...], tuple[str, str, Place | None]] = {}
        """Names from a wrapper: its class, its prefix, and where."""
        self._saved: dict[tuple[str, ...], tuple[int, Place | None]] = {}
        self._loaded: set[tuple[str, ...]] = set()

    def state_taken(self, taken: StateTaken) -> None:
        prefix = _prefix_of(taken.module)
        if prefix and taken.state and all(name.startswith(prefix) for name in taken.state):
            self._states[tuple(taken.state)] = (type(taken.module).__name__, prefix, taken.place)

    def state_loading(self, load: StateLoad) -> None:
        if _prefix_of(load.module):
            self._loaded.add(tuple(load.state))

    def state_saving(self, save: StateSave) -> None:
        if not self._states or not save.direct:
            return
        for state in _mappings(save.value, DEPTH):
            names = tuple(state)
            if names in self._states:
                self._saved.setdefault(names, (self.bus.step, save.place))

    def run_ended(self, end: RunEnd) -> None:
        for names, (step, save_place) in self._saved.items():
            wrapper, prefix, place = self._states[names]
            loaded = names in self._loaded
            self.bus.emit(PrefixSaved(step, place, wrapper, prefix, len(names), names[0], save_place, loaded))


def _path_of(file: object) -> str:
    """The absolute path of the file; empty for a buffer, a pipe or a device, which ranks do not share."""
    name = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
    if not isinstance(name, (str, os.PathLike)):
        return ""
    path = os.path.realpath(os.fsdecode(os.fspath(name)))
    return "" if os.path.exists(path) and not os.path.isfile(path) else path


def _prefix_of(module: nn.Module) -> str:
    """The prefix of a wrapper: 'module.', '_orig_mod.', or both."""
    if isinstance(module, OptimizedModule):
        return f"{WRAPPED_MODULE}." + _prefix_of(getattr(module, WRAPPED_MODULE))
    return "module." if isinstance(module, (DataParallel, DistributedDataParallel)) else ""


def _mappings(value: object, depth: int) -> Iterator[Mapping[Any, Any]]:
    if isinstance(value, Mapping):
        yield value
        if depth:
            for inner in list(value.values()):
                yield from _mappings(inner, depth - 1)
