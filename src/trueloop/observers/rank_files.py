"""Files that torch.save writes on one of several ranks, and states whose names start with a wrapper's prefix."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from trueloop.event import Place, PrefixSaved, StateWritten
from trueloop.observers.observer import Observer
from trueloop.taps.calls import Joined, RunEnd, StateLoad, StateSave, StateTaken
from trueloop.torch_private.compiler import OptimizedModule
from trueloop.torch_private.modules import WRAPPED_MODULE

__all__ = ["PrefixObserver", "SavedFilesObserver"]

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
            self.bus.emit(
                PrefixSaved(step, place, wrapper, prefix, len(names), names[0], save_place, names in self._loaded)
            )


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
