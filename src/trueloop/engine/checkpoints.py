"""Checkpoints for your own loop: every part with a state, and the random states, are restored bit-identically. Usable
alone:

    checkpoints = Checkpoints("runs/mine", model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
    for step in range(checkpoints.resume(), 10_000):
        ...
        if (step + 1) % 500 == 0:
            checkpoints.save(step + 1)
    checkpoints.finish()

A checkpoint is written in the background under another name, hashed, and renamed when it is complete. `resume` takes
the newest valid one. Reading never unpickles into classes.
"""

import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, Self, final, runtime_checkable

import torch
from torch import nn

from trueloop.checkpoint.contents import Contents, newest_valid, read_contents, take_snapshot
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.store import Folder, Store
from trueloop.errors import BadCheckpoint, Misuse
from trueloop.measure.randomness import restore_states, take_states
from trueloop.parallel.peers import find_peers

__all__ = ["Checkpoints", "Stateful"]

FORMAT: Final = 1  # Version of the checkpoint's contents


@runtime_checkable
class Stateful(Protocol):
    """A module, an optimizer, a scheduler, a scaler, a loader with a position: anything with a state_dict."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any, /) -> Any: ...


@final
class Checkpoints:
    """The checkpoints of one run; its parts are named by keyword. A part that is None is left out."""

    def __init__(self, folder: str | Path | Store, *, keep: int = 2, **parts: Stateful | None) -> None:
        self.parts: dict[str, Stateful] = {name: part for name, part in parts.items() if part is not None}
        for name, part in self.parts.items():
            if not isinstance(part, Stateful):
                raise Misuse(
                    f"{name}= is {type(part).__name__}, without state_dict() and load_state_dict(). Nothing was saved."
                )
        if not self.parts:
            raise Misuse("There is nothing to save: name the parts: Checkpoints(folder, model=model).")
        self.store = folder if isinstance(folder, Store) else Folder(Path(folder))
        self.values: Mapping[str, Any] = {}  # Other values passed to `save(step, name=value)`, after a resume
        self._best_step: int | None = None
        self._best: int | None = None
        self._peers = find_peers(torch.device("cpu"))
        self._saver = Saver(self.store, keep)
        # Called even if the user forgets it: an error of the last save must be raised.
        self._finish = weakref.finalize(self, self._saver.finish)

    def report_saves(self, to: Callable[[int, str], object]) -> None:
        """Call it with step and path when a checkpoint is complete on disk."""
        self._saver.on_saved = to

    def save(self, step: int, *, best: bool = False, **values: Any) -> None:
        """Take a snapshot now; it is written in the background. Raises the error of the save before it."""
        from trueloop import __version__

        states = {name: part.state_dict() for name, part in self.parts.items()}
        # Each process has its own loader position and random states; modules and optimizers are the same in all.
        shared = (nn.Module, torch.optim.Optimizer)
        own = {name: state for name, state in states.items() if not isinstance(self.parts[name], shared)}
        everybody = self._peers.gather({"parts": own, "random": take_states()})
        if not self._peers.first:
            return
        self._best = step if best else self._best
        modules = {name: state for name, state in states.items() if isinstance(self.parts[name], nn.Module)}
        optimizers = {name: state for name, state in states.items() if name not in modules and name not in own}
        versions = {"format": FORMAT, "trueloop": __version__, "torch": torch.__version__}
        about = {**versions, "step": step, "best_step": self._best, "parts": sorted(self.parts)}
        training = {"optimizers": optimizers, "values": values, "own": everybody}
        self._saver.save(take_snapshot(about, modules, training))

    def resume(self) -> int:
        """Restore the newest valid checkpoint; its step, or 0 if there is none yet."""
        self._saver.finish()
        if isinstance(self.store, Folder) and self._peers.first:
            self.store.sweep()
        name, contents, troubles = newest_valid(self.store, read_contents)
        if contents is None and troubles:
            raise BadCheckpoint(f"{troubles[-1]} There is no valid checkpoint. Nothing was loaded.")
        for trouble in troubles:
            warnings.warn(f"{trouble} It was ignored; {name} is valid.", stacklevel=2)
        if contents is None or name is None:
            return 0
        self._refuse_others(self.store.where(name), contents)
        self._restore(contents)
        return int(contents.about["step"])

    def _refuse_others(self, where: str, contents: Contents) -> None:
        saved, ours = set(contents.about.get("parts", ())), set(self.parts)
        if saved != ours:
            only = [f"{name}= is only {'there' if name in saved else 'here'}" for name in sorted(saved ^ ours)]
            raise BadCheckpoint(f"{where} was saved with different parts: {', '.join(only)}. Nothing was loaded.")
        processes = len(contents.training["own"])
        if processes != self._peers.world:
            raise BadCheckpoint(
                f"{where} was saved by {processes} processes; this run has {self._peers.world}. Nothing was loaded."
            )

    def _restore(self, contents: Contents) -> None:
        training = contents.training
        own = training["own"][self._peers.rank]
        for name, part in self.parts.items():
            if isinstance(part, nn.Module):
                part.load_state_dict(contents.state_of(name))
            else:
                part.load_state_dict({**training["optimizers"], **own["parts"]}[name])
        self.values, self._best = training["values"], contents.about["best_step"]
        restore_states(own["random"])  # last: a part may draw while it loads

    def finish(self) -> None:
        """Wait until everything is written; raise the error if that failed."""
        self._saver.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
