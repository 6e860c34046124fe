"""Additional places for metrics, by name. The run's folder always has all metrics, so a tracker that fails does not end
the run."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, final

from trueloop.errors import BadRecipe, MissingExtra, did_you_mean
from trueloop.event import Event
from trueloop.hook import Ending, Hook, Row, Start

__all__ = ["TRACKERS", "FailSafe", "check_trackers", "open_trackers"]

TRACKERS: Final = ("tensorboard", "wandb", "mlflow")
"""Each is a module beside this one, the package it needs, and an extra of trueloop."""


def check_trackers(names: Iterable[str]) -> None:
    """Before anything runs: unknown names, and requested packages that are not installed."""
    for name in names:
        if name not in TRACKERS:
            hint = f"{did_you_mean(name, TRACKERS)} Nothing was run. Available: {', '.join(TRACKERS)}."
            raise BadRecipe(f"There is no tracker {name!r}.{hint}")
        if name != "tensorboard" and not _installed(name):
            raise MissingExtra(f"The tracker {name} needs a package. Nothing was run: pip install 'trueloop[{name}]'")


def open_trackers(
    names: Iterable[str], folder: Path, recipe: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[list[Hook], list[str]]:
    """(trackers, notes). TensorBoard is on by default, so without its package there is a note, not an error."""
    check_trackers(names := tuple(names))
    notes: list[str] = []
    hooks: list[Hook] = []
    for name in names:
        if name == "tensorboard" and not _installed(name):
            hint = "pip install 'trueloop[tensorboard]'"
            notes.append(f"tensorboard is not installed: metrics are only in the run's folder ({hint})")
        else:
            hooks.append(FailSafe(name, _open(name, folder, recipe), say))
    return hooks, notes


def _installed(name: str) -> bool:
    """A folder of that name is not enough: wandb leaves one wherever it ran."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def _open(name: str, folder: Path, recipe: Mapping[str, Any]) -> Hook:
    module = import_module(f"trueloop.track.{name}")
    hook: Hook = module.TensorBoard(folder) if name == "tensorboard" else getattr(module, name.title())(folder, recipe)
    return hook


@final
class FailSafe(Hook):
    """Forwards everything until the tracker fails once: then it reports that, and stops forwarding."""

    def __init__(self, name: str, hook: Hook, say: Callable[[str], None]) -> None:
        self.name, self.say = name, say
        self.hook: Hook | None = hook

    def started(self, start: Start) -> None:
        self._forward(lambda hook: hook.started(start))

    def event_emitted(self, event: Event) -> None:
        self._forward(lambda hook: hook.event_emitted(event))

    def logged(self, row: Row) -> None:
        self._forward(lambda hook: hook.logged(row))

    def saved(self, step: int, path: str) -> None:
        self._forward(lambda hook: hook.saved(step, path))

    def noted(self, sentence: str) -> None:
        self._forward(lambda hook: hook.noted(sentence))

    def ended(self, ending: Ending) -> None:
        self._forward(lambda hook: hook.ended(ending))

    def _forward(self, call: Callable[[Hook], None]) -> None:
        if self.hook is None:
            return
        try:
            call(self.hook)
        except Exception as error:  # noqa: BLE001 - a service's failure must not cost hours of training
            self.hook = None
            why = f"{type(error).__name__}: {error}"
            self.say(f"{self.name} failed and gets no more metrics ({why}). The run's folder has them all.")
