"""Where metrics also go, by name. The run's folder always has them all, so that a tracker which fails ends itself, not
the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

from trueloop.errors import BadRecipe, MissingExtra, did_you_mean
from trueloop.event import Event
from trueloop.hook import Ending, Hook, Row, Start

__all__ = ["TRACKERS", "Secondary", "check_trackers", "open_trackers"]

TRACKERS: Final = ("tensorboard", "wandb", "mlflow")
"""Each is a file beside this one, the package it needs, and an extra of trueloop."""


def check_trackers(names: Iterable[str]) -> None:
    """Before anything runs: unknown names, and packages that were asked for and are not here."""
    for name in names:
        if name not in TRACKERS:
            raise BadRecipe(
                f"There is no tracker {name!r}.{did_you_mean(name, TRACKERS)} Nothing was run. There are: {', '.join(TRACKERS)}."
            )
        if name != "tensorboard" and not _installed(name):
            raise MissingExtra(f"The tracker {name} needs a package. Nothing was run: pip install 'trueloop[{name}]'")


def open_trackers(
    names: Iterable[str], folder: Path, recipe: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[list[Hook], list[str]]:
    """(the trackers, what a person should know about them). TensorBoard is on by default, so that its absence is a
    note, not an error."""
    check_trackers(names := tuple(names))
    notes: list[str] = []
    hooks: list[Hook] = []
    for name in names:
        if name == "tensorboard" and not _installed(name):
            notes.append(
                "tensorboard is not installed: metrics go to the run's folder only (pip install 'trueloop[tensorboard]')"
            )
            continue
        hooks.append(Secondary(name, _opened(name, folder, recipe), say))
    return hooks, notes


def _installed(name: str) -> bool:
    """A folder of that name is not enough: wandb leaves one wherever it ran."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def _opened(name: str, folder: Path, recipe: Mapping[str, Any]) -> Hook:
    if name == "tensorboard":
        from trueloop.track.tensorboard import TensorBoard

        return TensorBoard(folder)
    if name == "wandb":
        from trueloop.track.wandb import Wandb

        return Wandb(folder, recipe)
    from trueloop.track.mlflow import Mlflow

    return Mlflow(folder, recipe)


@final
class Secondary(Hook):
    """Passes everything on until it fails once: then it says so, and is silent."""

    def __init__(self, name: str, hook: Hook, say: Callable[[str], None]) -> None:
        self.name, self.say = name, say
        self.hook: Hook | None = hook

    def started(self, start: Start) -> None:
        self._pass_on(lambda hook: hook.started(start))

    def heard(self, event: Event) -> None:
        self._pass_on(lambda hook: hook.heard(event))

    def logged(self, row: Row) -> None:
        self._pass_on(lambda hook: hook.logged(row))

    def saved(self, step: int, path: str) -> None:
        self._pass_on(lambda hook: hook.saved(step, path))

    def noted(self, sentence: str) -> None:
        self._pass_on(lambda hook: hook.noted(sentence))

    def ended(self, ending: Ending) -> None:
        self._pass_on(lambda hook: hook.ended(ending))

    def _pass_on(self, tell: Callable[[Hook], None]) -> None:
        if self.hook is None:
            return
        try:
            tell(self.hook)
        except Exception as error:  # noqa: BLE001 - somebody else's service: whatever it raises must not cost hours of training
            self.hook = None
            self.say(
                f"{self.name} failed and gets no more metrics ({type(error).__name__}: {error}). The run's folder has them all."
            )
